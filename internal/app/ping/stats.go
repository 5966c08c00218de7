// SPDX-License-Identifier: Apache-2.0

package ping

import (
	"fmt"
	"io"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/ramjet-rdma/ramjet/internal/app/units"
)

// stats counts pings and, at the client, their round trips.
type stats struct {
	pings, bytes  int64
	trips         *hdrhistogram.Histogram // ns
	start, finish time.Time
}

func newStats() stats {
	const longest, digits = int64(time.Hour), 3
	return stats{trips: hdrhistogram.New(1, longest, digits)}
}

func (s *stats) begin() { s.start = time.Now() }

func (s *stats) end() { s.finish = time.Now() }

// add counts a ping of the client.
func (s *stats) add(trip time.Duration, size int) {
	s.pings++
	s.bytes += int64(size)
	s.trips.RecordValue(int64(trip)) // fails for more than an hour: counted without its time
}

// Summary is a client's measurements.
type Summary struct {
	Server    string        `json:"server"`
	Pings     int64         `json:"pings"`
	Size      int           `json:"size_bytes"` // of a ping, each way
	Elapsed   time.Duration `json:"elapsed_ns"`
	Validated bool          `json:"validated"` // every byte was compared
	RoundTrip Trips         `json:"round_trip"`
}

// Trips are round trips, of a READ and a WRITE.
type Trips struct {
	Min     time.Duration `json:"min_ns"`
	Median  time.Duration `json:"p50_ns"`
	Average time.Duration `json:"mean_ns"`
	P99     time.Duration `json:"p99_ns"`
	Max     time.Duration `json:"max_ns"`
}

func (s *stats) summary(c *Config) Summary {
	at := func(percentile float64) time.Duration { return time.Duration(s.trips.ValueAtQuantile(percentile)) }
	return Summary{c.Address, s.pings, c.Size, s.finish.Sub(s.start), c.Validate,
		Trips{time.Duration(s.trips.Min()), at(50), time.Duration(s.trips.Mean()), at(99),
			time.Duration(s.trips.Max())}}
}

// print writes the summary.
func (s *stats) print(w io.Writer, validated bool) {
	checked := ""
	if validated {
		checked = ", every byte compared"
	}
	fmt.Fprintf(w, "%s, %s bytes each way%s, %s\n", units.Plural(s.pings, "ping"), units.Count(s.bytes), checked,
		units.Duration(s.finish.Sub(s.start)))
	if s.trips.TotalCount() == 0 {
		return
	}
	µs := func(ns int64) float64 { return float64(ns) / 1e3 }
	fmt.Fprintf(w, "round trip (READ and WRITE) min/median/average/99%%/max: %.1f/%.1f/%.1f/%.1f/%.1f µs\n",
		µs(s.trips.Min()),
		µs(s.trips.ValueAtQuantile(50)), s.trips.Mean()/1e3, µs(s.trips.ValueAtQuantile(99)), µs(s.trips.Max()))
}
