// SPDX-License-Identifier: Apache-2.0

package perfcmd

import (
	"context"
	"fmt"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/ramjet-rdma/ramjet/internal/app/perf"
	"github.com/ramjet-rdma/ramjet/internal/app/units"
)

// stopTime bounds the end after an interrupt: the rest of a measurement on both sides.
const stopTime = 10 * time.Second

// endless measures one period after the other until ctx ends. The period that runs then is cut
// short on this side. It keeps sums, not periods.
func (f *perfFlags) endless(ctx context.Context, client *perf.Client, cfg perf.Config, out *perfOutput) error {
	defer context.AfterFunc(ctx, client.Stop)()
	running, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(cfg.Duration+stopTime, cancel) })()
	var sum endlessSum
	for ctx.Err() == nil {
		r, err := client.Run(running, cfg)
		if err != nil {
			return err
		}
		if r.Messages == 0 {
			continue // stopped before it began
		}
		sum.add(r)
		row := newPerfRow([]*perf.Result{r})
		if !f.json {
			out.row(row)
			out.rows = out.rows[:1] // whose heading is written
		}
	}
	if sum.periods == 0 {
		return ctx.Err()
	}
	total := newPerfRow([]*perf.Result{sum.result()})
	if f.hist {
		total.Percentiles = percentilesOf(total.Runs)
	}
	out.rows = []Row{total}
	if !f.json && !f.csv {
		fmt.Fprintf(out.w, "all of %s, %s:\n", units.Plural(sum.periods, "period"),
			units.Duration(total.Runs[0].Elapsed))
		out.rows = nil
		out.row(total)
	}
	return out.end()
}

// endlessSum adds measurements up.
type endlessSum struct {
	periods int
	last    *perf.Result
	total   perf.Result
	trips   *hdrhistogram.Histogram
}

func (s *endlessSum) add(r *perf.Result) {
	s.periods++
	s.last = r
	t := &s.total
	t.Messages += r.Messages
	t.Lost += r.Lost
	t.Elapsed += r.Elapsed
	t.BytesPerSecond += r.BytesPerSecond * r.Elapsed.Seconds() // bytes, until result
	t.PeakPerSecond = max(t.PeakPerSecond, r.PeakPerSecond)
	if r.Trips != nil && s.trips == nil {
		s.trips = hdrhistogram.Import(r.Trips.Export())
	} else if r.Trips != nil {
		s.trips.Merge(r.Trips)
	}
}

// result returns all periods as one.
func (s *endlessSum) result() *perf.Result {
	r := s.total
	r.Config, r.MTU, r.QPs, r.Trips = s.last.Config, s.last.MTU, s.last.QPs, s.trips
	r.Local, r.Peer = s.last.Local, s.last.Peer
	if sec := r.Elapsed.Seconds(); sec > 0 {
		r.BytesPerSecond /= sec
		r.MessagesPerSecond = float64(r.Messages) / sec
	}
	if s.trips != nil {
		r.RoundTrip = perf.RoundTripOf(s.trips)
	}
	return &r
}
