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

// print writes the summary.
func (s *stats) print(w io.Writer, validated bool) {
	checked := ""
	if validated {
		checked = ", every byte compared"
	}
	fmt.Fprintf(w, "%s, %s bytes each way%s, %s\n", units.Plural(s.pings, "ping"), units.Count(s.bytes), checked, units.Duration(s.finish.Sub(s.start)))
	if s.trips.TotalCount() == 0 {
		return
	}
	µs := func(ns int64) float64 { return float64(ns) / 1e3 }
	fmt.Fprintf(w, "round trip (READ and WRITE) min/median/average/99%%/max: %.1f/%.1f/%.1f/%.1f/%.1f µs\n", µs(s.trips.Min()),
		µs(s.trips.ValueAtQuantile(50)), s.trips.Mean()/1e3, µs(s.trips.ValueAtQuantile(99)), µs(s.trips.Max()))
}
