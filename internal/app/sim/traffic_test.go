// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/ramjet-rdma/ramjet/verbs"
)

// Drawn sizes have the mean of their distribution, and its shares.
func TestSizes(t *testing.T) {
	for _, d := range Distributions {
		r := rand.New(rand.NewPCG(1, 1))
		const n = 200_000
		sum := 0.0
		below := make([]int, len(d.points))
		for range n {
			size := float64(d.draw(r))
			sum += size
			for i, p := range d.points {
				if size <= p.bytes {
					below[i]++
				}
			}
		}
		if got, want := sum/n, d.Mean(); math.Abs(got-want) > want*0.03 {
			t.Errorf("%s: a mean of %.0f bytes, want %.0f", d.Name, got, want)
		}
		for i, p := range d.points {
			if got := 100 * float64(below[i]) / n; math.Abs(got-p.percent) > 1 {
				t.Errorf("%s: %.1f %% have %.0f bytes at most, want %v", d.Name, got, p.bytes, p.percent)
			}
		}
	}
}

// Poisson traffic has the load that was asked for.
func TestPoisson(t *testing.T) {
	l := Load{Op: verbs.OpWrite, Sizes: Distributions[2]}
	sum := 0.0
	for _, f := range l.Poisson(rand.New(rand.NewPCG(1, 1)), 32, 0.4, 100e9, 100*Millisecond) {
		if f.Src == f.Dst {
			t.Fatal("a flow to itself")
		}
		sum += float64(f.Size)
	}
	if got := 8 * sum / 0.1 / 32 / 100e9; math.Abs(got-0.4) > 0.02 {
		t.Errorf("the load is %.3f", got)
	}
}

// In a permutation each host sends once and receives once; an incast has as many senders as asked for.
func TestPatterns(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	l := Load{Op: verbs.OpWrite, Size: 1}
	sends, receives := map[int32]int{}, map[int32]int{}
	for _, f := range l.Permutation(r, 50) {
		sends[f.Src]++
		receives[f.Dst]++
		if f.Src == f.Dst {
			t.Error("a flow to itself")
		}
	}
	for h := range int32(50) {
		if sends[h] != 1 || receives[h] != 1 {
			t.Errorf("host %d sends %d times and receives %d", h, sends[h], receives[h])
		}
	}
	senders := map[int32]bool{}
	for _, f := range l.Incast(r, 50, 20, 3) {
		senders[f.Src] = true
		if f.Dst != 3 {
			t.Errorf("a flow to host %d", f.Dst)
		}
	}
	if len(senders) != 20 || senders[3] {
		t.Errorf("senders: %v", senders)
	}
}
