// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/ramjet-rdma/ramjet/verbs"
)

// Fabric has the operations of a demo on the fabric between its devices.
type Fabric interface {
	// Route returns the ports by which packets between the adapters of two devices leave nodes.
	Route(from, to string) ([]string, error)
	// Pull pulls a cable between switches that the route uses, and says which.
	Pull(from, to string) (cable string, err error)
	// Carried returns how many packets ports have sent, by their names as in routes.
	Carried() map[string]uint64
	// Manager names the subnet manager.
	Manager() string
}

// CableReport describes the time after a cable was pulled.
type CableReport struct {
	Manager     string   `json:"subnet_manager"`
	Cable       string   `json:"cable"`
	RouteBefore []string `json:"route_before"`
	RouteAfter  []string `json:"route_after"`
	// by the cable that was pulled, from this side, until then
	PacketsBefore uint64        `json:"packets_before"`
	PacketsAfter  uint64        `json:"packets_after"`         // by the one of the new route, from then on
	PulledAfter   int           `json:"pulled_after_messages"` // of the stream in which it was pulled
	Messages      int           `json:"messages"`              // of that stream
	Size          int           `json:"size_bytes"`            // of each
	Interruption  time.Duration `json:"interruption_ns"`       // the longest time without a completion in that stream
	// the median time between completions of the streams before
	UsualGap    time.Duration `json:"usual_gap_ns"`
	BytesBefore int64         `json:"verified_bytes_before"`
	BytesDuring int64         `json:"verified_bytes_during"`
	BytesAfter  int64         `json:"verified_bytes_after"`
}

// around is for how long data is streamed before the cable is pulled, and after.
const around = 500 * time.Millisecond

// cable streams data between the processes, pulls a cable in mid-stream, and goes on.
func (d *Demo) cable(ctx context.Context) (*CableReport, error) {
	from, to := d.side.local.Device, d.side.remote.Device
	st := &step{Op: verbs.OpWrite, QP: verbs.RC, Size: streamSize, Count: d.effort().window, Stream: true}
	r := &CableReport{Manager: d.Fabric.Manager(), Messages: st.Count, Size: st.Size, PulledAfter: st.Count / 4}
	var err error
	if r.RouteBefore, err = d.Fabric.Route(from, to); err != nil {
		return nil, err
	}
	var gaps []time.Duration
	if r.BytesBefore, gaps, err = d.streams(ctx, st); err != nil {
		return nil, err
	}
	slices.Sort(gaps)
	r.UsualGap = gaps[len(gaps)/2]

	var carried map[string]uint64
	n, gaps, err := d.watched(ctx, st, func(completed int) (err error) {
		if completed >= r.PulledAfter && r.Cable == "" {
			r.PulledAfter = completed
			r.Cable, err = d.Fabric.Pull(from, to)
			carried = d.Fabric.Carried()
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("after the cable %s was pulled: %w", r.Cable, err)
	}
	r.BytesDuring, r.Interruption = n, slices.Max(gaps)
	if r.BytesAfter, _, err = d.streams(ctx, st); err != nil {
		return nil, err
	}
	if r.RouteAfter, err = d.Fabric.Route(from, to); err != nil {
		return nil, err
	}
	now := d.Fabric.Carried()
	if len(r.RouteBefore) < 2 || len(r.RouteAfter) < 2 {
		return nil, errors.New("the route passes no switch")
	}
	r.PacketsBefore = carried[r.RouteBefore[1]]
	r.PacketsAfter = now[r.RouteAfter[1]] - carried[r.RouteAfter[1]]
	return r, nil
}

// streams does a step for a while.
func (d *Demo) streams(ctx context.Context, st *step) (verified int64, gaps []time.Duration, err error) {
	for start := time.Now(); len(gaps) == 0 || time.Since(start) < around; {
		n, g, err := d.watched(ctx, st, func(int) error { return nil })
		if err != nil {
			return 0, nil, err
		}
		verified, gaps = verified+n, append(gaps, g...)
	}
	return verified, gaps, nil
}

// watched does a step of WRITEs, verifies it in both processes, and returns the times between completions.
// progress is called after each turn of them.
func (d *Demo) watched(ctx context.Context, st *step, progress func(completed int) error) (verified int64,
	gaps []time.Duration, err error) {
	measure := func() error {
		s := d.side
		post := func(from, to int) error {
			for i := from; i < to; i++ {
				if err := s.post(st, i); err != nil {
					return err
				}
			}
			return nil
		}
		// A quarter is left for when progress is known: on a busy machine all of the others may be done by then.
		late := st.Count * 3 / 4
		if err := post(0, late); err != nil {
			return err
		}
		last := time.Now()
		for done := 0; done < st.Count; {
			if err := s.sleepUntil(ctx, st, &s.completed, done+1); err != nil {
				return err
			}
			done = s.completed
			now := time.Now()
			gaps, last = append(gaps, now.Sub(last)), now
			if err := progress(done); err != nil {
				return err
			}
			if late < st.Count && done >= st.Count/4 {
				if err := post(late, st.Count); err != nil {
					return err
				}
				late = st.Count
			}
		}
		return nil
	}
	st.Seed = randomPattern()
	verified, err = d.both(ctx, st, measure)
	return verified, gaps, err
}
