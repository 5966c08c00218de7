// SPDX-License-Identifier: Apache-2.0

package softdev

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/ramjet-rdma/ramjet/internal/base/clock"
)

// TestTimers sets many timers, stops some, and has the others fire in order.
func TestTimers(t *testing.T) {
	var h timers
	var fired []clock.Time
	r := rand.New(rand.NewPCG(1, 2))
	var want []clock.Time
	var all []*Timer
	for range 500 {
		x := &Timer{}
		x.Fire = func() { fired = append(fired, x.At) }
		h.Set(x, clock.Time(1+r.IntN(1000)))
		all = append(all, x)
	}
	for i, x := range all {
		if h[x.index-1] != x {
			t.Fatalf("timer %d is not at its place in the heap", i)
		}
		switch i % 4 {
		case 0:
			if h.Stop(x); x.index != 0 {
				t.Fatal("stopped, and still set")
			}
			continue
		case 1:
			h.Set(x, x.At+1000)
		case 2:
			h.SetBy(x, x.At+1) // it stays
			h.SetBy(x, 0)
		case 3:
			h.SetBy(x, max(1, x.At/2))
		}
		want = append(want, x.At)
	}
	slices.Sort(want)
	h.run(want[0] - 1)
	if h.next() != want[0] || len(fired) > 0 {
		t.Errorf("next is due at %d, want %d; %d have fired", h.next(), want[0], len(fired))
	}
	for now := want[0]; h.next() != 0; now = h.next() {
		h.run(now)
	}
	if !slices.Equal(fired, want) {
		t.Errorf("fired at %v, want %v", fired, want)
	}
}

// TestTimersBudget holds that timers which are due all at once leave room for other things in between.
func TestTimersBudget(t *testing.T) {
	var h timers
	fired := 0
	for range 2*budgetTimers + 1 {
		h.Set(&Timer{Fire: func() { fired++ }}, 1)
	}
	for _, want := range []int{budgetTimers, 2 * budgetTimers, 2*budgetTimers + 1} {
		if h.run(1); fired != want {
			t.Fatalf("%d have fired, want %d", fired, want)
		}
	}
}
