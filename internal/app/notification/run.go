// SPDX-License-Identifier: Apache-2.0

package notification

import (
	"context"
	"fmt"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/ramjet-rdma/ramjet/verbs"
)

// rounds is the number of turns in which the ways are measured, so that other work of the machine affects
// all of them, and no figure alone.
const rounds = 5

// Observer gets the progress of a measurement, in the goroutine that measures. Both functions may be nil.
type Observer struct {
	Step   func(name string, done, total int) // the present step, and its progress
	Result func(Result)                       // called with each result
}

// Run measures all ways with all numbers of peers, from one device to another. c has its defaults set.
// It does not close the devices.
func Run(ctx context.Context, client, target *verbs.Device, c Config, o Observer) ([]Result, error) {
	if err := c.Check(); err != nil {
		return nil, err
	}
	if o.Step == nil {
		o.Step = func(string, int, int) {}
	}
	if o.Result == nil {
		o.Result = func(Result) {}
	}
	most := c.Peers[len(c.Peers)-1]
	g, err := newGroup(client, target, c.Stride, most)
	if err != nil {
		return nil, err
	}
	defer g.free()
	var results []Result
	values := make([]byte, most)
	for _, n := range c.Peers {
		name := fmt.Sprintf("connecting %d peers", n)
		if err := g.grow(ctx, n, func(have int) { o.Step(name, have, n) }); err != nil {
			return results, err
		}
		got, err := g.measure(ctx, c, values, n, o.Step)
		if err != nil {
			return results, fmt.Errorf("%d peers: %w", n, err)
		}
		for _, r := range got {
			results = append(results, r)
			o.Result(r)
		}
	}
	return results, nil
}

// measure measures all ways with the first n peers. values are the bytes that peers have written.
func (g *group) measure(ctx context.Context, c Config, values []byte, n int,
	step func(string, int, int)) ([]Result, error) {
	t := &g.target
	t.peers, t.from = n, 0
	name := fmt.Sprintf("measuring %d peers", n)
	results := make([]Result, len(Ways))
	delays := make([][]*hdrhistogram.Histogram, len(Ways)) // by way, then by round
	for i, w := range Ways {
		results[i] = Result{Peers: n, Way: w}
	}
	total, done := (rounds+1)*len(Ways)+1, 0
	finished := func() { done++; step(name, done, total) }
	for round := range rounds {
		for i, w := range Ways {
			h, err := g.round(ctx, w, c, values, round)
			if err != nil {
				return nil, fmt.Errorf("%v: %w", w, err)
			}
			if h.TotalCount() > 0 {
				delays[i] = append(delays[i], h)
			}
			finished()
		}
	}
	for i, w := range Ways {
		results[i].Delay = delayOf(delays[i])
		busy, err := t.measureBusy(ctx, w, c.settle, c.observe)
		if err != nil {
			return nil, fmt.Errorf("%v: %w", w, err)
		}
		results[i].Busy = busy
		finished()
	}
	bytes, scan, immediate, err := t.measureLooks(ctx, &c)
	if err != nil {
		return nil, err
	}
	finished()
	for i := range results {
		switch r := &results[i]; r.Way {
		case Bytes:
			r.Look, r.Scan = bytes, scan
		case Immediate:
			r.Look = immediate
		}
	}
	return results, nil
}

// round does one of the rounds of a way.
func (g *group) round(ctx context.Context, w Way, c Config, values []byte, i int) (*hdrhistogram.Histogram, error) {
	iterations := c.Iterations*(i+1)/rounds - c.Iterations*i/rounds
	if c.Duration == 0 && iterations == 0 {
		return newHistogram(), nil
	}
	first := &round{group: g, way: w, bytes: values, delay: newHistogram()} // not recorded
	if err := first.run(ctx, 0, c.settle); err != nil {
		return nil, err
	}
	r := &round{group: g, way: w, bytes: values, delay: newHistogram()}
	return r.delay, r.run(ctx, iterations, c.Duration/rounds)
}
