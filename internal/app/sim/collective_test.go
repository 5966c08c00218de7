// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"cmp"
	"slices"
	"strings"
	"testing"

	"github.com/ramjet-rdma/ramjet/verbs"
)

// After an all-reduce each rank has heard of all others, by steps none of which begins before the data that it passes
// on have come. With large data its time is that of the bytes of one rank.
func TestAllReduce(t *testing.T) {
	const ranks, size = 8, 8 << 20
	load := Load{Op: verbs.OpWrite, Size: size, Start: 5 * Microsecond}
	for _, c := range []struct {
		name  string
		flows []Flow
		bytes float64 // that one rank sends, or the bytes on the longest way one after the other
	}{{"ring", load.Ring(ranks), 2 * size * (ranks - 1) / ranks},
		{"halving and doubling", load.HalvingDoubling(ranks), 2 * size * (ranks - 1) / ranks},
		{"tree", load.Tree(ranks), 0}} {
		count := len(c.flows)
		s := runAll(t, config(t, "window"), Star(ranks, wires), c.flows)
		type happening struct {
			at   Time
			ends bool
			flow int
		}
		var order []happening
		for i, f := range s.Flows() {
			order = append(order, happening{f.Start, false, i}, happening{f.End, true, i})
		}
		slices.SortStableFunc(order, func(a, b happening) int {
			return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(b2i(b.ends), b2i(a.ends))) // ends come first
		})
		knows, carries := make([]uint32, ranks), make([]uint32, count)
		for i := range knows {
			knows[i] = 1 << i
		}
		for _, h := range order {
			if f := &s.Flows()[h.flow]; h.ends {
				knows[f.Dst] |= carries[h.flow]
			} else {
				carries[h.flow] = knows[f.Src]
			}
		}
		for i, k := range knows {
			if k != 1<<ranks-1 {
				t.Errorf("%s: rank %d has heard of %b", c.name, i, k)
			}
		}
		took, least := (s.now - load.Start).Seconds(), 8*c.bytes/100e9
		if took < least || c.bytes > 0 && took > 1.2*least {
			t.Errorf("%s took %.3g s, want %.3g to %.3g", c.name, took, least, 1.2*least)
		}
	}
}

func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
}

// A flow that waits for a failing flow ends with it, and a flow that waits for a later one is refused.
func TestAfter(t *testing.T) {
	c := config(t, "window")
	c.Host.Timeout, c.Host.RetryCount = 6, 2
	c.Failures = []Failure{{Kind: LinkFails, A: 1, B: 3, At: Microsecond}}
	s, err := New(c, Star(3, wires), []Flow{{Src: 0, Dst: 1, Size: 1 << 20, Op: verbs.OpWrite},
		{Src: 0, Dst: 2, Size: 1000, Op: verbs.OpWrite, Start: Microsecond},
		{Src: 2, Dst: 0, Size: 1000, Op: verbs.OpWrite, After: []int32{0, 1}},
		{Src: 2, Dst: 0, Size: 1000, Op: verbs.OpWrite, After: []int32{2}},
		{Src: 2, Dst: 0, Size: 1000, Op: verbs.OpWrite, After: []int32{1}}})
	if err != nil {
		t.Fatal(err)
	}
	if more, err := s.Run(1 << 20); more || err != nil || s.Ended != 5 {
		t.Fatal(more, err, s.Ended)
	}
	for i, want := range []verbs.Status{verbs.StatusRetryExceeded, verbs.StatusSuccess, verbs.StatusWRFlushError,
		verbs.StatusWRFlushError, verbs.StatusSuccess} {
		if f := s.Flows()[i]; f.Status != want {
			t.Errorf("flow %d ended with %v, want %v", i, f.Status, want)
		}
	}
	for _, after := range []int32{0, 1, -1} {
		if _, err := New(c, Star(3, wires), []Flow{{Src: 0, Dst: 1, After: []int32{after}}}); err == nil ||
			!strings.Contains(err.Error(), "has to be one before it") {
			t.Errorf("after %d: %v", after, err)
		}
	}
}
