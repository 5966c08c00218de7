// SPDX-License-Identifier: Apache-2.0

package perfcmd

import (
	"fmt"
	"io"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/ramjet-rdma/ramjet/internal/app/perf"
)

// percentile is a point of a distribution, in perftest's unit of time.
type percentile struct {
	Percentile float64 `json:"percentile"`
	Time       float64 `json:"t_usec"`
	Count      int64   `json:"count"` // round trips that took no longer
}

// percentilesOf returns the distribution of the round trips of all runs: the steps between
// percentiles halve at every halving of the rest to 100, as HdrHistogram's logs have it. Times of
// SEND and WRITE are half a round trip, as in the columns.
func percentilesOf(runs []*perf.Result) []percentile {
	var all *hdrhistogram.Histogram
	for _, r := range runs {
		switch {
		case r.Trips == nil:
		case all == nil:
			all = hdrhistogram.Import(r.Trips.Export())
		default:
			all.Merge(r.Trips)
		}
	}
	if all == nil || all.TotalCount() == 0 {
		return nil
	}
	unit := float64(time.Microsecond)
	if halves(runs[0].Config.Op) {
		unit *= 2
	}
	var list []percentile
	for _, b := range all.CumulativeDistribution() {
		list = append(list, percentile{b.Quantile, float64(b.ValueAt) / unit, b.Count})
	}
	return list
}

// writeHistograms writes the percentiles of rows, in the columns of HdrHistogram's percentile logs.
func writeHistograms(w io.Writer, rows []Row) {
	for _, r := range rows {
		if len(r.Percentiles) == 0 {
			continue
		}
		fmt.Fprintf(w, "\npercentiles of %d bytes:\n%12s %14s %12s %14s\n", r.Config.Size, "t[usec]", "percentile",
			"count", "1/(1-p)")
		for _, p := range r.Percentiles {
			rest := "inf"
			if p.Percentile < 100 {
				rest = fmt.Sprintf("%.2f", 1/(1-p.Percentile/100))
			}
			fmt.Fprintf(w, "%12.3f %14.8f %12d %14s\n", p.Time, p.Percentile/100, p.Count, rest)
		}
	}
}
