// SPDX-License-Identifier: Apache-2.0

//go:build interop

package interop

import (
	"flag"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/ramjet-rdma/ramjet/verbs"
)

var goodputTime = flag.Duration("goodput", 0, "measure goodput over loss: five times for this long at each rate")

// TestGoodput prints how much of its goodput a stream of WRITEs of 64 KiB from Ramjet to rxe
// keeps when packets get lost, both ways. The guest is emulated: only the ratios say
// anything. The rates take turns, and the medians count.
func TestGoodput(t *testing.T) {
	if *goodputTime == 0 {
		t.Skip("a measurement, not a test: -goodput 2s runs it")
	}
	rates := []string{"0", "0.1", "0.5", "1", "2", "5"}
	const rounds = 5
	kept, rewinds := make([][]float64, len(rates)), make([][]float64, len(rates))
	for round := range rounds {
		without := 0.0
		for i, loss := range rates {
			t.Run(fmt.Sprintf("%d/%s%%", round, loss), func(t *testing.T) {
				goodput, back := measureGoodput(t, loss)
				if i == 0 {
					without = goodput
				}
				kept[i], rewinds[i] = append(kept[i], goodput/without), append(rewinds[i], back)
			})
		}
	}
	table := "| loss each way | goodput, of that without loss (least to most) | went back, times a MiB |\n| --- | --- | --- |\n"
	for i, loss := range rates {
		if len(kept[i]) < rounds {
			continue // failed, or not asked for
		}
		slices.Sort(kept[i])
		slices.Sort(rewinds[i])
		table += fmt.Sprintf("| %s %% | %.2f (%.2f to %.2f) | %.2f |\n", loss, kept[i][rounds/2], kept[i][0],
			kept[i][rounds-1], rewinds[i][rounds/2])
	}
	t.Log("\n" + table)
}

// measureGoodput returns messages a second, and how often Ramjet went back a MiB.
func measureGoodput(t *testing.T, loss string) (goodput, back float64) {
	const size, depth = 64 << 10, 16
	l := links[1]
	p := pair{l, openRamjet(t, l), openGuest(t, l)}
	g := dialGuest(t, false)
	for _, direction := range []string{"in", "out"} {
		g.netem(direction, "limit", "10000", "loss", loss+"%")
	}
	a, _ := p.queues(verbs.RC, verbs.ConnectOptions{})
	from, to := p.a.region(size, verbs.LocalWrite), p.b.region(size, verbs.LocalWrite|verbs.RemoteWrite)
	write := work{SendWR: verbs.SendWR{Op: verbs.OpWrite, Flags: verbs.Signaled, SGL: []verbs.SGE{from.sge(0, size)},
		Remote: to.remote()}}
	for range depth {
		a.send(write)
	}
	done := 0
	start := time.Now()
	for ; time.Since(start) < *goodputTime; done++ {
		want(t, a.wait(1)[0], 0, verbs.WCWrite)
		a.send(write)
	}
	goodput = float64(done) / time.Since(start).Seconds()
	a.wait(depth)
	t.Logf("%.0f messages a second", goodput)
	return goodput, float64(p.a.(*device).counter("rewinds")) / (float64(done) * size / (1 << 20))
}
