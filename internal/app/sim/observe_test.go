// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"strings"
	"testing"

	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/wire/ib"
)

// An observer sees each packet of the ports that it chose, with an ICRC that is right, pauses and losses among them.
func TestObserve(t *testing.T) {
	for _, payload := range []bool{true, false} {
		c := config(t, "window")
		c.Payload, c.Host.Window, c.Switch.Buffer, c.Host.Timeout = payload, 16<<20, 1<<20, 8
		c.Failures = []Failure{{Kind: LinkFails, A: 4, B: 5, At: 20 * Microsecond, For: 20 * Microsecond}}
		s, err := New(c, Star(5, wires), incast(4, 400_000, verbs.OpWrite))
		if err != nil {
			t.Fatal(err)
		}
		seen := map[What]uint64{}
		pauses := uint64(0)
		if err := s.Observe("switch 0", func(o *Sighting) {
			if o.Node != "switch 0" || !strings.HasPrefix(o.Peer, "host ") || o.String() == "" {
				t.Fatalf("%v", o)
			}
			seen[o.What]++
			if pause, _ := o.Pause(); pause {
				pauses++
				return
			}
			src, dst := o.Addrs()
			flow := ib.NewPseudoHeader(src, dst, true)
			if _, how := flow.Verify(o.Append(nil), 0); how != ib.VerifiedWhole {
				t.Fatalf("%v: its ICRC is wrong", o)
			}
		}); err != nil {
			t.Fatal(err)
		}
		if more, err := s.Run(1 << 30); more || err != nil {
			t.Fatal(more, err)
		}
		var sent, gone uint64
		for _, p := range s.switches[0].ports {
			sent, gone = sent+p.Stats.Packets, gone+p.Stats.Lost
		}
		if seen[Sent] != sent || seen[Lost] != gone || gone == 0 || pauses == 0 || seen[Arrived] == 0 {
			t.Errorf("%d of %d packets were seen sent, %d of %d lost; %d pause frames, %d arrived", seen[Sent], sent,
				seen[Lost], gone, pauses, seen[Arrived])
		}
	}
	s, err := New(config(t, "window"), Star(2, wires), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, where := range []string{"", "host", "host 2", "switch 0 - host 9", "host 0 - host 1"} {
		if err := s.Observe(where, nil); err == nil || !strings.Contains(err.Error(), "give a node") {
			t.Errorf("%q: %v", where, err)
		}
	}
}
