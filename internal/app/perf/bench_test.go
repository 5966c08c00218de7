// SPDX-License-Identifier: Apache-2.0

package perf

import (
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/ramjet-rdma/ramjet/internal/app/perf/baseline"
)

// BenchmarkFigures measures every figure of docs/decisions/0032-figures.md and the baseline of its
// ratio. One iteration is one message or round trip; the ratios are metrics:
//
//	go test -run '^$' -bench Figures -benchtime 1s -count 5 ./internal/app/perf
//
// Ratios need runs of at least some 100 ms: with -benchtime 1x they say nothing.
func BenchmarkFigures(b *testing.B) {
	for _, f := range Figures(0) {
		b.Run(strings.NewReplacer(" ", "_", ",", "").Replace(f.Name), func(b *testing.B) {
			if f.Device != "roce:" && runtime.GOOS != "linux" {
				b.Skip("iWARP over TCP is there on Linux only")
			}
			benchmark(b, dial(b, f.Device), f)
		})
	}
}

func benchmark(b *testing.B, c *Client, f Figure) {
	limit := func(c Config) Config {
		c.Duration, c.Iters = 0, max(1, b.N/max(c.QPs, 1))
		return c
	}
	r, err := c.Run(b.Context(), limit(f.Config))
	if err != nil {
		b.Fatal(err)
	}
	value := f.Unit.Of(r)
	b.ReportMetric(float64(r.Elapsed.Nanoseconds())/float64(r.Messages), "ns/op")
	b.ReportMetric(float64((r.Local.Allocs+r.Peer.Allocs)/r.Messages), "allocs/op")
	if f.Unit == BytesPerSecond {
		b.ReportMetric(value/1e6, "MB/s")
	}
	for _, ref := range f.Against {
		var against float64
		switch {
		case ref.Baseline != nil:
			cfg := *ref.Baseline
			cfg.Count = b.N
			if cfg.Kind == baseline.UDPPackets || cfg.Kind == baseline.UDPTrains {
				cfg.Count, cfg.Duration = 0, max(r.Elapsed, 5*time.Millisecond)
			}
			br, err := c.Baseline(b.Context(), cfg)
			if err != nil {
				b.Logf("%s: %v", ref.Name, err)
				continue
			}
			against = f.Unit.OfBaseline(br)
		case ref.Config != nil:
			r, err := c.Run(b.Context(), limit(*ref.Config))
			if err != nil {
				b.Fatal(err)
			}
			against = f.Unit.Of(r)
		default:
			against = ref.Fixed
		}
		b.ReportMetric(value/against, "x_"+strings.ReplaceAll(ref.Name, " ", "_"))
	}
}
