// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/ramjet-rdma/ramjet/internal/app/units"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// until polls until cond holds.
func (s *side) until(ctx context.Context, st *step, cond func() bool) error {
	var since time.Time // about when the last completion came
	before := -1
	for n := 1; !cond(); n++ {
		if err := s.poll(st); err != nil {
			return err
		}
		if n%4096 != 0 {
			continue
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if now, done := time.Now(), s.received+s.completed; done != before {
			since, before = now, done
		} else if now.Sub(since) > maxSilence {
			return fmt.Errorf("nothing came for %s, after %d completions for %d messages", units.Period(maxSilence),
				done, st.Count)
		}
	}
	return nil
}

// arrived waits for message i of the peer.
func (s *side) arrived(ctx context.Context, st *step, i int, want []byte) error {
	if st.Op != verbs.OpWrite {
		return s.until(ctx, st, func() bool { return s.received > i })
	}
	off, there := i*st.Size, false
	look := func(b []byte) { there = bytes.Equal(b[off:off+st.Size], want) }
	return s.until(ctx, st, func() bool { s.in.Do(look); return there })
}

// echo is the second process's part in a step.
func (s *side) echo(ctx context.Context, st *step) error {
	switch {
	case st.Stream && st.receives(s.role):
		return s.sleepUntil(ctx, st, &s.received, st.Count)
	case !st.echoed():
		return nil // it only has to move data, which waiting for the next message does
	}
	want := st.expected(s.role)
	for i := range st.Count {
		if err := s.arrived(ctx, st, i, want.message(i)); err != nil {
			return err
		}
		if err := s.post(st, i); err != nil {
			return err
		}
	}
	return s.until(ctx, st, func() bool { return s.completed == st.Count })
}

// measure is the first process's part in a step. It returns the time of each round trip or
// operation, or for a stream the total.
func (s *side) measure(ctx context.Context, st *step) ([]time.Duration, error) {
	if st.Stream {
		return s.stream(ctx, st)
	}
	if st.atomic() {
		return s.atomics(ctx, st)
	}
	want := st.expected(s.role)
	times := make([]time.Duration, 0, st.Count)
	for i := range st.Count {
		start := time.Now()
		err := s.post(st, i)
		switch {
		case err != nil:
		case st.echoed():
			err = s.arrived(ctx, st, i, want.message(i))
		default:
			err = s.until(ctx, st, func() bool { return s.completed > i })
		}
		if err != nil {
			return nil, err
		}
		times = append(times, time.Since(start))
	}
	return times, s.until(ctx, st, func() bool { return s.completed == st.Count })
}

func (s *side) stream(ctx context.Context, st *step) ([]time.Duration, error) {
	start := time.Now()
	for i := range st.Count {
		if err := s.post(st, i); err != nil {
			return nil, err
		}
	}
	count := st.Count
	if s.iwarp() && st.Op == verbs.OpWrite { // a READ behind the WRITEs confirms that they have arrived
		count++
		if err := s.rc.PostSend(&verbs.SendWR{Op: verbs.OpRead, Flags: verbs.Signaled,
			SGL: []verbs.SGE{s.words.SGE(0, 8)}, Remote: s.remote.Words}); err != nil {
			return nil, err
		}
	}
	err := s.sleepUntil(ctx, st, &s.completed, count)
	return []time.Duration{time.Since(start)}, err
}

// sleepUntil waits until count messages of a stream have completed, without polling for long.
func (s *side) sleepUntil(ctx context.Context, st *step, count *int, want int) error {
	for *count < want {
		wait, cancel := context.WithTimeout(ctx, maxSilence)
		n, err := s.cq.Wait(wait, s.wcs[:])
		cancel()
		if err != nil {
			return cmp.Or(context.Cause(ctx), fmt.Errorf("after %d of %d messages: %w", *count, st.Count, err))
		}
		if err := s.take(st, n); err != nil {
			return err
		}
	}
	return nil
}

func (s *side) atomics(ctx context.Context, st *step) ([]time.Duration, error) {
	_, compare, swap, _ := st.atomicWant()
	times := make([]time.Duration, 0, st.Count)
	for i := range st.Count {
		start := time.Now()
		err := s.rc.PostSend(&verbs.SendWR{ID: uint64(i), Op: st.Op, Flags: verbs.Signaled,
			SGL:    []verbs.SGE{s.in.SGE(8*i, 8)},
			Remote: s.remote.Words.At(wordOffset), Compare: compare[i], Swap: swap[i], Add: swap[i]})
		if err == nil {
			err = s.until(ctx, st, func() bool { return s.completed > i })
		}
		if err != nil {
			return nil, err
		}
		times = append(times, time.Since(start))
	}
	return times, nil
}
