// SPDX-License-Identifier: Apache-2.0

package perf

import (
	"context"
	"fmt"
	"slices"

	"github.com/ramjet-rdma/ramjet/internal/app/perf/baseline"
	"github.com/ramjet-rdma/ramjet/internal/app/units"
)

// Figure is one of the figures that this project holds itself to: a measurement as a ratio to
// others of the same run.
type Figure struct {
	Name    string
	Unit    Unit
	Device  string // kind, with its colon, and options
	Config  Config
	Against []Reference
}

// Unit is the unit of a figure.
type Unit int

// The units of a Figure's values.
const (
	BytesPerSecond Unit = iota
	MessagesPerSecond
	RoundTripTime // seconds, both ways together, the median
)

// String returns the unit's name in JSON.
func (u Unit) String() string {
	return [...]string{BytesPerSecond: "bytes/s", MessagesPerSecond: "messages/s", RoundTripTime: "s"}[u]
}

// Reference is the figure that another is compared with, and the target for the ratio.
type Reference struct {
	Name     string
	Baseline *baseline.Config // bare sockets, or else:
	Config   *Config          // verbs in another way, or else:
	Fixed    float64          // a value that any machine should reach
	Want     float64          // at least, for RoundTripTime at most; 0: no target, only for comparison
}

// Reached reports whether a ratio meets its target.
func (f *Figure) Reached(ref int, ratio float64) bool {
	if f.Unit == RoundTripTime {
		return ratio <= f.Against[ref].Want
	}
	return ratio >= f.Against[ref].Want
}

// Of returns the value of a result.
func (u Unit) Of(r *Result) float64 {
	switch u {
	case BytesPerSecond:
		return r.BytesPerSecond
	case MessagesPerSecond:
		return r.MessagesPerSecond
	}
	return r.RoundTrip.P50.Seconds()
}

// OfBaseline returns the value of bare sockets.
func (u Unit) OfBaseline(r baseline.Result) float64 {
	switch u {
	case BytesPerSecond:
		return r.BytesPerSecond()
	case MessagesPerSecond:
		return r.MessagesPerSecond()
	}
	return r.Median.Seconds()
}

// Format formats a value with its unit.
func (u Unit) Format(v float64) string {
	switch u {
	case BytesPerSecond:
		return units.Rate(v)
	case MessagesPerSecond:
		return units.PerSecond(v)
	}
	return units.Seconds(v)
}

// Values are the results of one run of a figure.
type Values struct {
	Value   float64   `json:"value"` // in the figure's unit, as Against is
	Against []float64 `json:"against"`
	Ratios  []float64 `json:"ratios"` // value to each of Against
	Allocs  uint64    `json:"allocs"` // heap objects, both processes
	Count   uint64    `json:"count"`  // messages
}

// Measure measures a figure once, and everything it is compared with.
func (c *Client) Measure(ctx context.Context, f *Figure) (v Values, err error) {
	r, err := c.Run(ctx, f.Config)
	if err != nil {
		return v, fmt.Errorf("%s: %w", f.Name, err)
	}
	v.Value, v.Allocs, v.Count = f.Unit.Of(r), r.Local.Allocs+r.Peer.Allocs, r.Messages
	for _, ref := range f.Against {
		var a float64
		switch {
		case ref.Baseline != nil:
			b, err := c.Baseline(ctx, *ref.Baseline)
			if err != nil {
				return v, fmt.Errorf("%s: %s: %w", f.Name, ref.Name, err)
			}
			a = f.Unit.OfBaseline(b)
		case ref.Config != nil:
			r, err := c.Run(ctx, *ref.Config)
			if err != nil {
				return v, fmt.Errorf("%s: %s: %w", f.Name, ref.Name, err)
			}
			a = f.Unit.Of(r)
		default:
			a = ref.Fixed
		}
		v.Against = append(v.Against, a)
		v.Ratios = append(v.Ratios, v.Value/a)
	}
	return v, nil
}

// Median returns the median of values: of two in the middle the larger.
func Median(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	s := slices.Sorted(slices.Values(values))
	return s[len(s)/2]
}

// Deep returns c with queues and completions for the highest rate of small messages.
func (c Config) Deep() Config {
	c.TxDepth, c.RxDepth, c.CQMod, c.PostList = 1024, 4096, 64, 32
	return c
}
