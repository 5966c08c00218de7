// SPDX-License-Identifier: Apache-2.0

package notification

import (
	"slices"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Result is the measurement of one way with one number of peers.
type Result struct {
	Peers int   `json:"peers"`
	Way   Way   `json:"way"`
	Delay Delay `json:"delay"`
	Look  *Look `json:"look,omitempty"` // nil: the target sleeps instead
	Scan  *Look `json:"scan,omitempty"` // of Look, the bytes alone; nil for other ways
	// Busy is how many processors the process keeps busy while nothing arrives: 1 is one of them.
	// It is nil where the system does not report processor time.
	Busy *float64 `json:"busy_processors,omitempty"`
}

// Delay is the time from just before a WRITE was posted until the target knew its peer. Percentiles and
// mean are medians of the rounds' own, so that a round in which the machine did something else
// counts for little.
type Delay struct {
	Count int64         `json:"count"` // of all rounds
	Min   time.Duration `json:"min_ns"`
	P50   time.Duration `json:"p50_ns"`
	P99   time.Duration `json:"p99_ns"`
	Max   time.Duration `json:"max_ns"`
	Mean  float64       `json:"mean_ns"`
}

// Look is the processor time of a look that finds nothing, in nanoseconds. Looks are too short to be
// timed one by one: these are percentiles of means over [LookTime]. Where the system does not report
// processor time they are of elapsed time.
type Look struct {
	P50 float64 `json:"p50_ns"`
	P99 float64 `json:"p99_ns"`
	// Disturbed says that other processes wanted the processors nearly all the time. Software devices
	// then sleep between polls, which costs more than polling.
	Disturbed bool `json:"disturbed"`
}

// maxDelay limits the times that a histogram records.
const maxDelay = time.Minute

func newHistogram() *hdrhistogram.Histogram {
	const digits = 3
	return hdrhistogram.New(1, int64(maxDelay), digits)
}

// delayOf sums up rounds, of which there is at least one.
func delayOf(rounds []*hdrhistogram.Histogram) Delay {
	d := Delay{Min: maxDelay}
	median := func(of func(h *hdrhistogram.Histogram) float64) float64 {
		var values []float64
		for _, h := range rounds {
			values = append(values, of(h))
		}
		slices.Sort(values)
		return values[len(values)/2]
	}
	for _, h := range rounds {
		d.Count += h.TotalCount()
		d.Min, d.Max = min(d.Min, time.Duration(h.Min())), max(d.Max, time.Duration(h.Max()))
	}
	d.P50 = time.Duration(median(func(h *hdrhistogram.Histogram) float64 { return float64(h.ValueAtQuantile(50)) }))
	d.P99 = time.Duration(median(func(h *hdrhistogram.Histogram) float64 { return float64(h.ValueAtQuantile(99)) }))
	d.Mean = median((*hdrhistogram.Histogram).Mean)
	return d
}

// lookOf returns the percentiles of means in nanoseconds, of which there is at least one.
func lookOf(means []float64) *Look {
	s := slices.Sorted(slices.Values(means))
	return &Look{P50: s[len(s)/2], P99: s[len(s)*99/100]}
}
