// SPDX-License-Identifier: Apache-2.0

package pin

import (
	"math/rand/v2"
	"testing"
)

// TestRanges compares the counts of random ranges with an array that has one for each page.
func TestRanges(t *testing.T) {
	for seed := range uint64(200) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		var r ranges
		var model [64]int
		type span struct{ from, to uintptr }
		var open []span
		for step := range 200 {
			if len(open) == 0 || rnd.IntN(3) > 0 && len(open) < 20 {
				from := uintptr(rnd.IntN(len(model)))
				to := from + uintptr(rnd.IntN(len(model)-int(from)+1))
				r.add(from, to)
				open = append(open, span{from, to})
				for i := from; i < to; i++ {
					model[i]++
				}
			} else {
				i := rnd.IntN(len(open))
				s := open[i]
				open = append(open[:i], open[i+1:]...)
				var ended [64]bool
				r.remove(s.from, s.to, func(from, to uintptr) {
					if from >= to {
						t.Fatalf("seed %d step %d: an empty range ended", seed, step)
					}
					for ; from < to; from++ {
						if ended[from] {
							t.Fatalf("seed %d step %d: page %d ended twice", seed, step, from)
						}
						ended[from] = true
					}
				})
				for i := s.from; i < s.to; i++ {
					model[i]--
				}
				for i := range model {
					if want := s.from <= uintptr(i) && uintptr(i) < s.to && model[i] == 0; ended[i] != want {
						t.Fatalf("seed %d step %d: page %d ended: %v", seed, step, i, ended[i])
					}
				}
			}
			checkRanges(t, &r, model[:])
		}
	}
}

// checkRanges compares ranges with a model, and checks that they are in order and merged.
func checkRanges(t *testing.T, r *ranges, model []int) {
	t.Helper()
	got := make([]int, len(model))
	bytes := uintptr(0)
	for i, s := range r.list {
		if s.from >= s.to || s.n < 1 || i > 0 &&
			(r.list[i-1].to > s.from || r.list[i-1].to == s.from && r.list[i-1].n == s.n) {
			t.Fatalf("segments %v", r.list)
		}
		bytes += s.to - s.from
		for p := s.from; p < s.to; p++ {
			got[p] = s.n
		}
	}
	for i := range model {
		if got[i] != model[i] {
			t.Fatalf("page %d is pinned by %d, not %d: %v", i, got[i], model[i], r.list)
		}
	}
	if bytes != r.bytes {
		t.Fatalf("%d bytes, not %d", r.bytes, bytes)
	}
}
