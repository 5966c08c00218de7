// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"context"
	"slices"
	"time"

	"github.com/ramjet-rdma/ramjet/internal/device/kinds"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// speeds measures WRITEs over shared memory, over the demo's devices, and TCP between the same processes.
func (d *Demo) speeds(ctx context.Context) (all []Speed, err error) {
	kind, err := kinds.Find(SharedMemory)
	if err != nil {
		return nil, err
	}
	over := map[bool]*kinds.Kind{false: d.Kind, true: kind}
	for _, shared := range []bool{true, false} {
		if shared && d.shared == nil || !shared && d.shared == d.side {
			continue
		}
		s, err := d.speed(ctx, shared)
		if err != nil {
			return nil, err
		}
		s.Over, s.Bound = over[shared].Name, over[shared].Bound
		all = append(all, s)
	}
	tcp, err := d.tcpSpeed(ctx)
	return append(all, tcp), err
}

// speed measures WRITEs: small ones to and fro, and a stream of large ones.
func (d *Demo) speed(ctx context.Context, shared bool) (speed Speed, err error) {
	e := d.effort()
	small := &step{Op: verbs.OpWrite, QP: verbs.RC, Size: smallSize, Count: min(burstLength, e.messages),
		Shared: shared}
	large := &step{Op: verbs.OpWrite, QP: verbs.RC, Size: streamSize, Count: e.window, Stream: true, Shared: shared}
	trips, _, err := d.repeat(ctx, small, e.messages/small.Count)
	if err != nil {
		return speed, err
	}
	streams, sum, err := d.repeat(ctx, large, e.streams)
	if err != nil {
		return speed, err
	}
	slices.Sort(trips)
	slices.Sort(streams)
	speed.RoundTrip, speed.Shortest = trips[len(trips)/2], trips[0]
	rate := func(took time.Duration) float64 { return float64(large.total()) / took.Seconds() }
	speed.BytesPerSecond, speed.BestPerSecond = rate(streams[len(streams)/2]), rate(streams[0])
	speed.TargetNsPerByte = sum.perByte()
	return speed, nil
}

// repeat does a step several times, as long as there is time. The times are without verification.
func (d *Demo) repeat(ctx context.Context, st *step, times int) (took []time.Duration, sum streamSum, err error) {
	limit := speedTime
	if time.Since(d.began) > late {
		limit /= 4
	}
	for start := time.Now(); len(took) == 0 || times > 0 && time.Since(start) < limit; times-- {
		st.Seed = randomPattern()
		_, err := d.both(ctx, st, func() error {
			before := d.peer.processorTime()
			t, err := d.on(st).measure(ctx, st)
			sum.add(int64(st.total()), d.peer.processorTime().since(before))
			took = append(took, t...)
			return err
		})
		if err != nil {
			return nil, sum, err
		}
	}
	return took, sum, nil
}

// streamSum is the time that streams took of the target's processor.
type streamSum struct {
	bytes int64
	used  time.Duration
	n     int // streams
	known int // of which used is known
}

func (s *streamSum) add(bytes int64, used processorTime) {
	s.n++
	s.bytes += bytes
	s.used += used.time
	if used.known {
		s.known++
	}
}

// perByte returns nanoseconds a byte, or nil if they are not known.
func (s *streamSum) perByte() *float64 {
	if s.bytes == 0 || s.known < s.n {
		return nil
	}
	ns := float64(s.used) / float64(s.bytes)
	return &ns
}
