// SPDX-License-Identifier: Apache-2.0

package infiniband_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/ramjet-rdma/ramjet/infiniband"
	"github.com/ramjet-rdma/ramjet/internal/testkit/loopback"
	"github.com/ramjet-rdma/ramjet/internal/testkit/softfabric"
	"github.com/ramjet-rdma/ramjet/roce"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// BenchmarkWrite measures WRITEs of 1 MiB between two adapters at one switch, and between two devices of
// RoCEv2 on loopback, all in one process and in turns: medians of rounds of a tenth of a second or more.
func BenchmarkWrite(b *testing.B) {
	const size = 1 << 20
	f := softfabric.Start(b, "star:2")
	pair := func(open func() *verbs.Device) (from, to *side) {
		from, to = newSide(b, open(), size), newSide(b, open(), size)
		connect(b, from, to)
		return from, to
	}
	onFabric := func() *verbs.Device {
		d, err := f.Open("", nil)
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { d.Close() })
		return d
	}
	onLoopback := func() *verbs.Device {
		d, _ := loopback.Open(b, func(addr string) (*verbs.Device, error) { return roce.Open(addr, nil) })
		return d
	}
	var froms, tos [2]*side
	froms[0], tos[0] = pair(onFabric)
	froms[1], tos[1] = pair(onLoopback)
	round := func(from, to *side) (bytesPerSecond float64) {
		const writes, depth = 400, 16
		start := time.Now()
		for posted, done := 0, 0; done < writes; {
			for posted < writes && posted-done < depth {
				from.write(b, to)
				posted++
			}
			done += from.wait(b, 1)
		}
		return writes * size / time.Since(start).Seconds()
	}
	var rates [2][]float64
	for b.Loop() {
		for i := range rates {
			rates[i] = append(rates[i], round(froms[i], tos[i]))
		}
	}
	for i := range rates {
		slices.Sort(rates[i])
	}
	fabric, ethernet := rates[0][len(rates[0])/2], rates[1][len(rates[1])/2]
	b.ReportMetric(fabric/1e9, "infiniband-GB/s")
	b.ReportMetric(ethernet/1e9, "roce-GB/s")
	b.ReportMetric(fabric/ethernet, "ratio")
}

// BenchmarkBringUp measures how long the built-in manager takes to bring up 1,000 adapters on a fat tree
// of three levels: until every port with a cable is active, the making of the nodes included.
func BenchmarkBringUp(b *testing.B) {
	for b.Loop() {
		f, err := infiniband.GenerateFabric("xgft:10,10,10;1,5,5", nil)
		if err != nil {
			b.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(b.Context(), time.Minute)
		if err := f.AwaitActive(ctx); err != nil {
			b.Fatal(err)
		}
		cancel()
		f.Close()
	}
}
