// SPDX-License-Identifier: Apache-2.0

package infiniband

import (
	"net/netip"
	"strings"
	"testing"
	"time"
)

// An adapter gets its former port, or else a new port, or else the port that was left first, and none of a pulled
// cable.
func TestPlaces(t *testing.T) {
	one, two := netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("192.0.2.2")
	p1, p2 := End{Node: "s", Port: 1}, End{Node: "s", Port: 2}
	p := places{}
	a, _, err := p.find("a", one, []End{p1, p2})
	if err != nil || a.end != p1 {
		t.Fatal(a, err)
	}
	a.cable = new(Cable)
	if _, _, err := p.find("a", two, []End{p2}); err == nil || !strings.Contains(err.Error(), "another name") {
		t.Errorf("from another host: %v", err)
	}
	if _, before, err := p.find("a", one, []End{p2}); err != nil || before != a.cable {
		t.Errorf("from the same host: %v", err)
	}
	b, _, err := p.find("b", two, []End{p2})
	if err != nil || b.end != p2 {
		t.Fatal(b, err)
	}
	b.cable = new(Cable)
	if _, _, err := p.find("c", two, nil); err == nil {
		t.Error("there is a port where none is free")
	}
	p.leave(a.cable, false, time.Unix(2, 0))
	p.leave(b.cable, true, time.Unix(1, 0))
	if _, _, err := p.find("b", two, []End{p1, p2}); err == nil || !strings.Contains(err.Error(), "relink") {
		t.Errorf("pulled: %v", err)
	}
	c, _, err := p.find("c", two, []End{p1, p2})
	if err != nil || c.end != p1 || p["a"] != nil || len(p) != 2 {
		t.Errorf("c is at %v, %v; %d places", c, err, len(p))
	}
	if p.relink(p1) || !p.relink(p2) {
		t.Error("another cable is plugged in again than was pulled")
	}
	if b, _, err := p.find("b", two, []End{p1, p2}); err != nil || b.end != p2 {
		t.Errorf("b comes back to %v, %v", b, err)
	}
	for _, bad := range []string{"", "[1]", "a", "a[2]", "a\n[1]", strings.Repeat("a", 65) + "[1]"} {
		if _, err := adapterName(bad); err == nil {
			t.Errorf("%q is the port of an adapter", bad)
		}
	}
}
