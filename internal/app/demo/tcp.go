// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"cmp"
	"context"
	"net/netip"
	"runtime"
	"slices"
	"time"

	"github.com/ramjet-rdma/ramjet/internal/app/perf/baseline"
)

// tcpMeasure measures TCP between the two processes, each size once.
type tcpMeasure struct {
	d    *Demo
	kind baseline.Kind // of round trips
	had  map[baseline.Config]tcpResult
}

// tcpResult is the median of several measurements.
type tcpResult struct {
	baseline.Result
	disturbed bool
}

func newTCPMeasure(d *Demo) *tcpMeasure {
	t := &tcpMeasure{d: d, kind: baseline.TCPPolled, had: make(map[baseline.Config]tcpResult)}
	if runtime.GOOS != "linux" {
		t.kind = baseline.TCPSleeping
	}
	return t
}

// add adds TCP's figures for the same bytes to a row.
func (t *tcpMeasure) add(ctx context.Context, st *step, row *Row) (err error) {
	e := t.d.effort()
	if !st.Stream {
		r, err := t.median(ctx, baseline.Config{Kind: t.kind, Size: st.Size, Count: e.messages, Duration: stepTime}, 1)
		row.TCPRoundTripUs, row.TCPDisturbed = microseconds(r.Median), r.disturbed
		return err
	}
	r, err := t.median(ctx, baseline.Config{Kind: baseline.TCPStream, Size: st.Size, Count: 4 * e.window, Duration: stepTime}, min(e.streams, 5))
	row.TCPBytesPerSecond, row.TCPDisturbed = r.BytesPerSecond(), r.disturbed
	return err
}

// median returns the median, by elapsed time per byte, of several measurements, which are made once
// per run.
func (t *tcpMeasure) median(ctx context.Context, c baseline.Config, repeat int) (tcpResult, error) {
	if r, ok := t.had[c]; ok {
		return r, nil
	}
	var results []baseline.Result
	for start := time.Now(); len(results) == 0 || len(results) < repeat && time.Since(start) < stepTime; {
		answer, err := t.d.link.ask(ctx, message{Ask: askTCP, TCP: &c}, nil)
		if err != nil {
			return tcpResult{}, err
		}
		r, err := baseline.Run(ctx, c, netip.AddrPortFrom(t.d.side.tcpAddress(), 0), answer.Listen)
		if err != nil {
			return tcpResult{}, err
		}
		results = append(results, r)
	}
	slices.SortFunc(results, func(a, b baseline.Result) int { return cmp.Compare(b.BytesPerSecond(), a.BytesPerSecond()) })
	r := tcpResult{Result: results[len(results)/2]}
	if c.Kind == baseline.TCPStream {
		perByte := func(r baseline.Result) time.Duration { return time.Duration(1e15 / r.BytesPerSecond()) } // of 1 MB
		r.disturbed = disturbed(perByte(results[0]), perByte(r.Result), true)
	} else {
		r.disturbed = disturbed(r.Min, r.Median, false)
	}
	t.had[c] = r
	return r, nil
}
