// SPDX-License-Identifier: Apache-2.0

package softdev

import (
	"net/netip"
	"testing"
)

// TestHalfOpen fills a HalfOpen from one source and then from others: the greatest loses its oldest, and a source with
// few keeps them.
func TestHalfOpen(t *testing.T) {
	h := NewHalfOpen[int](10)
	add := func(peer string, v int) (gone int) {
		t.Helper()
		h.Add(netip.MustParseAddr(peer), v)
		if !h.Full() {
			return -1
		}
		gone, ok := h.Oldest()
		if !ok {
			t.Fatal("full of nothing")
		}
		for _, a := range []string{"192.0.2.1", "192.0.2.2", "2001:db8::1"} {
			h.Remove(netip.MustParseAddr(a), gone)
		}
		if h.Len() != 10 {
			t.Fatalf("%d are left", h.Len())
		}
		return gone
	}
	for v := range 10 {
		if gone := add("192.0.2.1", v); gone != -1 {
			t.Fatalf("%d went although there was room", gone)
		}
	}
	for _, c := range []struct {
		peer    string
		v, want int
	}{
		{"192.0.2.1", 10, 0},
		{"192.0.2.2", 20, 1},
		{"::ffff:192.0.2.1", 11, 2}, // the same source
		{"2001:db8::1", 30, 3},
		{"2001:db8::2", 31, 4},
		{"2001:db8::3", 32, 5},
		{"2001:db8::4", 33, 6}, // five of 192.0.2.1 are left: 7 to 11
		{"2001:db8::5", 34, 7}, // both have five: whose oldest is older
		{"2001:db8::6", 35, 30},
	} {
		if gone := add(c.peer, c.v); gone != c.want {
			t.Errorf("%s began %d: %d went, want %d", c.peer, c.v, gone, c.want)
		}
	}
	if len(h.sources) != 3 {
		t.Errorf("%d sources, want 3", len(h.sources))
	}
	// 192.0.2.1 has 8 to 11, 192.0.2.2 has 20, and the subnet has 31 to 35.
	if first, _ := h.Earliest(); first != 8 {
		t.Errorf("%d is the earliest, want 8", first)
	}
	if last, _ := h.Latest(); last != 35 {
		t.Errorf("%d is the latest, want 35", last)
	}
	h.Remove(netip.MustParseAddr("2001:db8::1"), 35)
	h.Add(netip.MustParseAddr("192.0.2.1"), 12)
	if last, _ := h.Latest(); last != 12 {
		t.Errorf("%d is the latest of who has the most, want 12", last)
	}
	h.Remove(netip.MustParseAddr("192.0.2.2"), 20)
	h.Remove(netip.MustParseAddr("192.0.2.2"), 20)
	if h.Len() != 9 || len(h.sources) != 2 {
		t.Errorf("%d of %d sources are left, want 9 of 2", h.Len(), len(h.sources))
	}
}
