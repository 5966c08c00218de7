// SPDX-License-Identifier: Apache-2.0

package perf

import (
	"math"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// lastByte is the last byte of a message, which counts round trips: WRITE latency is measured by
// it.
type lastByte struct {
	value  byte              // the expected value
	look   func([]byte)      // reads it from the received message, into seen
	stamp  func([]byte)      // puts value into the message to send
	landed func([]byte) bool // reports whether value has arrived
	seen   byte
	pongs  uint64 // SENDs that are to come back
	looks  int    // between two polls
}

// byteAt reads a byte that another process writes: each time anew.
//
//go:noinline
func byteAt(b []byte, at int) byte { return b[at] }

// soloLooks is how often a side looks at memory between two polls, where peers write by themselves: polls
// tell nothing of that.
const soloLooks = 512

// latency is one side of a latency measurement. sent is called with the number of messages once the
// client has done all its round trips.
func (s *side) latency(h *hdrhistogram.Histogram, sent func(uint64)) (r Report, err error) {
	s.streams[0].limit = math.MaxInt
	s.CQMod = max(1, s.TxDepth/2)
	if s.Op.fetches() {
		s.CQMod = 1
	}
	at := s.Size - 1
	s.look = func(b []byte) {
		for range s.looks {
			if s.seen = byteAt(b, at); s.seen == s.value {
				return
			}
		}
	}
	s.stamp = func(b []byte) { b[at] = s.value }
	s.landed = func(b []byte) bool { return b[at] == s.value }
	if !s.client {
		before := allocs()
		if s.Op.fetches() {
			err = s.serve()
		} else {
			err = s.answer()
		}
		r.Allocs, r.Received = allocs()-before, s.received
		return r, err
	}
	if _, err := s.trips(s.Warmup, 0, nil); err != nil {
		return r, err
	}
	before := allocs()
	limit := s.Iters
	if s.Duration > 0 {
		limit = math.MaxInt
	}
	if r.Elapsed, err = s.trips(limit, s.Duration, h); err != nil {
		return r, err
	}
	r.Allocs, r.Received, r.Sent = allocs()-before, s.received, uint64(h.TotalCount())
	sent(s.streams[0].posted)
	return r, nil
}

// trips does up to n round trips, records each unless h is nil, and returns how long they took. Recorded round trips
// end after d, unless it is 0, or when Stop is called. A round trip is timed from one post to the next, of which there
// is one more. So the clock is read while a message is on its way.
func (s *side) trips(n int, d time.Duration, h *hdrhistogram.Histogram) (elapsed time.Duration, err error) {
	start := time.Now()
	var first, last time.Duration
	for i := 0; i <= n; i++ {
		if err := s.ping(); err != nil {
			return 0, err
		}
		if h != nil {
			now := time.Since(start) // half as long as time.Now
			if i == 0 {
				first = now
			} else {
				_ = h.RecordValue(min(int64(now-last), int64(maxTrip)))
			}
			last = now
		}
		if err := s.pong(); err != nil {
			return 0, err
		}
		if d > 0 && i > 0 && (last-first >= d || s.halted(timeUp)) {
			break
		}
	}
	return last - first, nil
}

// ping posts the first message of a round trip.
func (s *side) ping() error {
	switch {
	case s.Op.fetches():
		return s.post(0, 1)
	case s.Op == Write:
		return s.postByte(s.value + 1)
	}
	s.pongs++
	return s.postMessage()
}

// pong waits for the answer.
func (s *side) pong() error {
	if s.Op == Write {
		_, err := s.awaitByte()
		return err
	}
	for st := &s.streams[0]; s.received < s.pongs || s.Op.fetches() && st.done < st.posted; {
		if err := s.step(); err != nil {
			return err
		}
	}
	return nil
}

// answer sends a message for each that arrives, until the client has done all its round trips.
func (s *side) answer() error {
	for {
		if s.Op == Write {
			s.value++
			if arrived, err := s.awaitByte(); err != nil || !arrived {
				return err
			}
			if err := s.postByte(s.value); err != nil {
				return err
			}
			continue
		}
		for want := s.received + 1; s.received < want; {
			if err := s.step(); err != nil {
				return err
			}
			if s.received < want && s.halted(peerDone) {
				return nil
			}
		}
		if err := s.postMessage(); err != nil {
			return err
		}
	}
}

// step polls once.
func (s *side) step() error {
	n := s.poll()
	if n == 0 && s.halted(failed) {
		return s.failure()
	}
	return s.take(n)
}

// sendRoom waits until one more send can be posted.
func (s *side) sendRoom() error {
	st := &s.streams[0]
	for st.posted-st.done >= uint64(s.TxDepth) {
		if err := s.step(); err != nil {
			return err
		}
	}
	return nil
}

// postMessage posts a send, and reposts receives while it is in flight.
func (s *side) postMessage() error {
	if err := s.sendRoom(); err != nil {
		return err
	}
	if err := s.post(0, 1); err != nil {
		return err
	}
	if st := &s.streams[0]; st.toRepost >= len(st.recvs)/2+1 {
		return st.refill()
	}
	return nil
}

// postByte posts a write whose last byte is v.
func (s *side) postByte(v byte) error {
	if err := s.sendRoom(); err != nil {
		return err
	}
	s.value = v
	if s.inline() {
		s.streams[0].wrs[0].Inline[s.Size-1] = v // copied when posted
	} else {
		s.src.Do(s.stamp)
	}
	return s.post(0, 1)
}

// awaitByte waits until the last byte of the peer's message is value. It returns false if the peer has
// done everything.
func (s *side) awaitByte() (bool, error) {
	if s.Events {
		// A write raises no event at its target: sleep until memory changes.
		if err := s.take(s.cq.Poll(s.wcs[:])); err != nil {
			return false, err
		}
		err := s.dst.WaitFor(s.ctx, s.landed)
		if err == nil {
			return true, nil
		}
		if s.halted(peerDone) && !s.halted(failed) {
			return false, nil
		}
		if f := s.failure(); f != nil {
			err = f
		}
		return false, err
	}
	for {
		if err := s.take(s.cq.Poll(s.wcs[:])); err != nil {
			return false, err
		}
		if s.dst.Do(s.look); s.seen == s.value {
			return true, nil
		}
		if s.halted(peerDone | failed) {
			return false, s.failure()
		}
	}
}
