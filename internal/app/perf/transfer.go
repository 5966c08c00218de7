// SPDX-License-Identifier: Apache-2.0

package perf

import (
	"runtime"
	"time"

	"github.com/ramjet-rdma/ramjet/verbs"
)

const (
	// progressEvery messages of up to progressSize bytes take much less time than the watchdog waits.
	progressEvery = 16
	progressSize  = 4096
)

// settle is how long a side without acknowledgements waits for the last messages.
const settle = 5 * time.Millisecond

// arrival limits how long data without completions may take to arrive after the peer has sent the
// last of it.
const arrival = 2 * time.Second

// mark measures the best stretch of a transfer.
type mark struct {
	every, next uint64 // messages
	done        uint64 // messages completed, all queue pairs
	at          uint64 // messages at the last mark
	time        time.Time
	best        float64 // messages per second
}

// pass records the time at a mark.
func (m *mark) pass(now time.Time) {
	if d := now.Sub(m.time); d > 0 {
		m.best = max(m.best, float64(m.done-m.at)/d.Seconds())
	}
	m.at, m.time, m.next = m.done, now, m.done+m.every
}

// bandwidth is one side of a bandwidth measurement. sent is called with the number of messages once
// this side has sent everything.
func (s *side) bandwidth(sent func(uint64)) (r Report, err error) {
	if !s.client && !s.Both {
		before := allocs()
		if err := s.serve(); err != nil {
			return r, err
		}
		r.Allocs = allocs() - before
	} else {
		s.mark.every = uint64(4 * s.TxDepth * s.QPs)
		s.setLimit(uint64(s.warmupPerQP()))
		if err := s.send(); err != nil {
			return r, err
		}
		warm := s.mark.done
		limit := uint64(s.Iters)
		if s.Duration > 0 {
			limit = 1 << 62
		}
		before := allocs()
		s.setLimit(limit)
		start := time.Now()
		if s.Duration > 0 {
			defer time.AfterFunc(s.Duration, func() { s.halt.Or(timeUp) }).Stop()
		}
		s.mark.at, s.mark.time, s.mark.next, s.mark.best = warm, start, warm+s.mark.every, 0
		if err := s.send(); err != nil {
			return r, err
		}
		r.Elapsed = time.Since(start)
		r.Allocs = allocs() - before
		r.Sent = s.mark.done - warm
		r.Peak = s.mark.best * float64(s.Size)
		if err := s.confirm(); err != nil {
			return r, err
		}
		sent(s.mark.done)
		if s.Both {
			if err := s.serve(); err != nil {
				return r, err
			}
		}
	}
	r.Received, r.Arriving = s.received, s.last.Sub(s.first)
	return r, nil
}

// allocs returns how many heap objects the process has allocated.
func allocs() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.Mallocs
}

// setLimit allows every queue pair to send n more messages.
func (s *side) setLimit(n uint64) {
	for i := range s.streams {
		s.streams[i].limit = s.streams[i].posted + n
	}
}

// send posts until every queue pair has reached its limit and everything has completed. It also
// takes received messages.
func (s *side) send() error {
	depth := uint64(s.TxDepth)
	for {
		idle := true
		for i := range s.streams {
			st := &s.streams[i]
			for st.posted < st.limit {
				n := min(uint64(len(st.wrs)), st.limit-st.posted)
				if st.posted-st.done+n > depth {
					break
				}
				if err := s.post(i, int(n)); err != nil {
					return err
				}
			}
			idle = idle && st.done >= st.limit
		}
		if idle {
			return nil
		}
		if err := s.take(s.poll()); err != nil {
			return err
		}
		if s.halted(timeUp | failed) {
			if s.halted(failed) {
				return s.failure()
			}
			s.stopSending()
		}
	}
}

// stopSending sets the limit of every queue pair to the number that it has posted, or one more if the
// last would not complete.
func (s *side) stopSending() {
	s.halt.And(^uint32(timeUp))
	for i := range s.streams {
		st := &s.streams[i]
		st.limit = st.posted
		if st.unsignaled > 0 {
			st.limit++
		}
	}
}

// post posts the next n work requests of queue pair i.
func (s *side) post(i, n int) error {
	st := &s.streams[i]
	for j := range n {
		wr := &st.wrs[j]
		st.posted++
		st.unsignaled++
		wr.Flags = 0
		if int(st.unsignaled) >= s.CQMod || st.posted == st.limit {
			wr.Flags = verbs.Signaled
			wr.ID = uint64(i)<<32 | uint64(st.unsignaled)
			st.unsignaled = 0
		}
		if s.Op == CompareSwap {
			wr.Compare, wr.Swap = st.seq, st.seq+1
			st.seq++
		}
	}
	if n == 1 {
		return st.qp.PostSend(&st.wrs[0])
	}
	_, err := st.qp.PostSendList(st.wrs[:n])
	return err
}

// take handles the first n completions of wcs.
func (s *side) take(n int) error {
	if n == 0 {
		return nil
	}
	received := s.received
	for i := range s.wcs[:n] {
		wc := &s.wcs[i]
		if wc.Status != verbs.StatusSuccess {
			return checkWC(wc)
		}
		if wc.Op < verbs.WCRecv {
			count := uint64(uint32(wc.ID))
			s.streams[wc.ID>>32].done += count
			s.mark.done += count
			continue
		}
		s.received++
		st := &s.streams[wc.ID]
		st.toRepost++
		if s.Mode == Bandwidth && st.toRepost >= len(st.recvs) {
			if err := st.refill(); err != nil {
				return err
			}
		}
	}
	if s.received > received && s.Transport != RC {
		s.last = time.Now()
		if received == 0 {
			s.first = s.last
		}
	}
	if s.mark.done >= s.mark.next {
		s.mark.pass(time.Now())
	}
	s.noteProgress()
	return nil
}

// noteProgress has the watchdog see the progress: of short messages not each time.
func (s *side) noteProgress() {
	if n := s.mark.done + s.received; n-s.progress.Load() >= progressEvery || s.Size > progressSize {
		s.progress.Store(n)
	}
}

// serve takes received messages until the peer has sent everything. Where nothing completes and no poll helps,
// it leaves the processor to others.
func (s *side) serve() error {
	if s.Op != Send && (s.Events || solo(s.pd.Device())) {
		<-s.ctx.Done()
		return s.failure()
	}
	var quiet time.Time
	for {
		n := s.poll()
		if err := s.take(n); err != nil {
			return err
		}
		switch {
		case n > 0:
			quiet = time.Time{}
		case s.halted(failed):
			return s.failure()
		case !s.halted(peerDone):
		case s.Transport == RC && (s.Op != Send || s.received >= s.peerSent.Load()):
			return nil
		case s.Transport == RC:
		case quiet.IsZero():
			quiet = time.Now()
		case time.Since(quiet) > settle:
			return nil
		}
	}
}
