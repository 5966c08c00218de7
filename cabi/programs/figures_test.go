// SPDX-License-Identifier: Apache-2.0

//go:build linux && !race

package programs

import (
	"context"
	"fmt"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// figure is the result of a perftest program on Ramjet beside `ramjet perf` doing the same.
type figure struct {
	name     string
	perftest string // the program and its arguments, for both sides
	perf     string // arguments of `ramjet perf`
	column   int    // of the table that both print
	unit     string
	want     float64 // the ratio of perftest's to ramjet perf's that this project holds itself to
	atMost   bool    // ratio's bound is an upper one
}

// Columns of perftest's tables.
const (
	columnTypical = 4 // of latencies: µs
	columnAverage = 3 // of bandwidths: 2^20 bytes a second
	columnRate    = 4 // of bandwidths: millions of messages a second
)

var figures = []figure{
	{name: "write_bw/1MiB", perftest: "ib_write_bw -s 1048576 -n 1500", perf: "write bw -s 1M -n 1500",
		column: columnAverage, unit: "MiB/s", want: 0.9},
	{name: "send_bw/1MiB", perftest: "ib_send_bw -s 1048576 -n 1500", perf: "send bw -s 1M -n 1500",
		column: columnAverage, unit: "MiB/s", want: 0.9},
	{name: "read_bw/1MiB", perftest: "ib_read_bw -s 1048576 -n 1500", perf: "read bw -s 1M -n 1500",
		column: columnAverage, unit: "MiB/s", want: 0.9},
	{name: "send_lat/64B", perftest: "ib_send_lat -s 64 -n 20000", perf: "send lat -s 64 -n 20000",
		column: columnTypical, unit: "µs", want: 1.15, atMost: true},
	{name: "write_lat/64B", perftest: "ib_write_lat -s 64 -n 20000", perf: "write lat -s 64 -n 20000",
		column: columnTypical, unit: "µs", want: 1.15, atMost: true},
	// perftest asks for a completion of each hundredth message.
	{name: "send_bw/64B", perftest: "ib_send_bw -s 64 -n 700000", perf: "send bw -s 64 -n 700000 -Q 100",
		column: columnRate, unit: "M/s", want: 0.7},
	{name: "send_bw/64B/Q64", perftest: "ib_send_bw -s 64 -n 700000 -Q 64", perf: "send bw -s 64 -n 700000 -Q 64",
		column: columnRate, unit: "M/s", want: 0.7},
}

// BenchmarkFigures measures both in turns, as often as -benchtime says, and reports the
// medians and the median of the ratios.
func BenchmarkFigures(b *testing.B) {
	for _, f := range figures {
		b.Run(f.name, func(b *testing.B) {
			dir := need(b, strings.Fields(f.perftest)[0])
			ramjet := ramjet(b)
			var theirs, ours, ratios []float64
			for b.Loop() {
				c := f.program(b, dir)
				r := f.command(b, ramjet)
				theirs, ours, ratios = append(theirs, c), append(ours, r), append(ratios, c/r)
			}
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(median(theirs), "perftest-"+f.unit)
			b.ReportMetric(median(ours), "ramjet-"+f.unit)
			b.ReportMetric(median(ratios), "ratio")
			bound := "at least"
			if f.atMost {
				bound = "at most"
			}
			b.Logf("ratio wanted: %s %v; ratios: %.2f", bound, f.want, ratios)
		})
	}
}

func median(v []float64) float64 {
	v = slices.Sorted(slices.Values(v))
	return v[len(v)/2]
}

// program runs both sides of the perftest program.
func (f *figure) program(b *testing.B, dir string) float64 {
	ctx, cancel := context.WithTimeout(b.Context(), 2*time.Minute)
	defer cancel()
	args := append(strings.Fields(f.perftest), "-p", freePort(b))
	server := start(b, ctx, dir, serverAddr, args...)
	out, err := pair{}.connect(b, ctx, dir, server, clientAddr, append(args, serverAddr))
	if err != nil {
		b.Fatal(err)
	}
	if err := <-server.done; err != nil {
		b.Fatalf("server: %v\n%s", err, server.out.String())
	}
	return f.value(b, out)
}

// command runs `ramjet perf`.
func (f *figure) command(b *testing.B, ramjet string) float64 {
	ctx, cancel := context.WithTimeout(b.Context(), 2*time.Minute)
	defer cancel()
	out, err := exec.CommandContext(ctx, ramjet, strings.Fields("perf "+f.perf+" --loopback")...).CombinedOutput()
	if err != nil {
		b.Fatalf("ramjet perf %s: %v\n%s", f.perf, err, out)
	}
	return f.value(b, string(out))
}

// value reads the figure below the table's head.
func (f *figure) value(b *testing.B, out string) float64 {
	_, rows, _ := strings.Cut(out, table)
	_, rows, _ = strings.Cut(rows, "\n")
	if row := strings.Fields(rows); len(row) > f.column {
		if v, err := strconv.ParseFloat(row[f.column], 64); err == nil && v > 0 {
			return v
		}
	}
	b.Fatal(fmt.Errorf("no figure in\n%s", out))
	return 0
}
