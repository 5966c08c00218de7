// SPDX-License-Identifier: Apache-2.0

package sma

import (
	"testing"

	"github.com/ramjet-rdma/ramjet/internal/base/clock"
	"github.com/ramjet-rdma/ramjet/internal/engine/node"
	"github.com/ramjet-rdma/ramjet/wire/mad"
	"github.com/ramjet-rdma/ramjet/wire/mad/pm"
	"github.com/ramjet-rdma/ramjet/wire/mad/smp"
)

// FuzzAgent hands any bytes to the agents of an adapter and of a switch at any port, as subnet management
// packets and as datagrams to queue pair 1, several in a row, and checks the agents' invariants.
func FuzzAgent(f *testing.F) {
	f.Add(uint8(0), []byte{})
	f.Add(uint8(0), []byte{0})
	for _, t := range attributes {
		for _, m := range []mad.Method{mad.MethodGet, mad.MethodSet} {
			p := smp.New(m, t.id, 1, 1)
			p.Data[5], p.Data[33] = 3, 0x33
			f.Add(uint8(1), p.Append(nil))
			p = smp.NewDirected(m, t.id, 1<<16|1, 1, []uint8{2})
			p.SetHops(1, 1)
			f.Add(uint8(2), p.Append(p.Append(nil)))
			p.SetHops(1, 3)
			f.Add(uint8(2), p.Append(nil))
		}
	}
	repress := smp.New(mad.MethodTrapRepress, mad.AttrNotice, 0, 0x20<<32|1)
	f.Add(uint8(3), repress.Append(nil))
	for _, a := range []mad.Attribute{mad.AttrClassPortInfo, pm.AttrPortCounters, pm.AttrPortCountersExtended} {
		h := mad.Header{BaseVersion: 1, Class: mad.ClassPerf, ClassVersion: 1, Method: mad.MethodSet, Attribute: a}
		f.Add(uint8(255), append(h.Append(nil), make([]byte, mad.DataLen)...))
	}
	f.Fuzz(func(t *testing.T, port uint8, b []byte) {
		for _, kind := range []node.Type{node.CA, node.Switch} {
			n := node.New(kind, 0x20, "fuzz", 4, node.DefaultSpec)
			for i := 1; i < len(n.Ports); i++ {
				n.Ports[i].Up(node.Width4x, node.EDR)
			}
			a := New(n)
			managed(a.addressPort(1), 7)
			n.Changed = func(num int) {
				if num < 0 || num >= len(n.Ports) || num == 0 && kind == node.CA {
					t.Fatalf("port %d of a %v has changed", num, kind)
				}
			}
			now := clock.Time(1)
			for rest := b[:min(len(b), 8*mad.Size)]; ; {
				one := make([]byte, mad.Size)
				k := copy(one, rest)
				rest = rest[k:]
				fuzzSMP(t, a, now, int(port%7), one)
				gmp := make([]byte, mad.Size)
				copy(gmp, one)
				a.HandleGMP(now, int(port%7), gmp)
				now += 10 * second
				if len(rest) == 0 {
					break
				}
			}
			checkNode(t, a, now)
		}
	})
}

// fuzzSMP hands an agent a packet and checks the verdict.
func fuzzSMP(t *testing.T, a *Agent, now clock.Time, in int, b []byte) {
	var was, is smp.SMP
	was.Decode(b)
	v := a.HandleSMP(now, in, Route{SLID: 1, DLID: 7, Port: in}, b)
	is.Decode(b)
	switch {
	case v < Deliver || int(v) >= len(a.node.Ports) || v == 0:
		t.Fatalf("verdict %d", v)
	case v == Drop:
		if is != was {
			t.Fatal("what is dropped was changed")
		}
	case v == Reply && !is.Directed() && is.Method != mad.MethodGetResp:
		t.Fatalf("the answer has method %#x", uint8(is.Method))
	case v > 0 && !is.Directed():
		t.Fatalf("class %#x goes out at a port", uint8(is.Class))
	}
	if is.TID != was.TID || is.Class != was.Class || is.Attribute != was.Attribute {
		t.Fatalf("%+v became %+v", was.Header, is.Header)
	}
}

// checkNode checks that an agent's node is as it can be, and that its traps end.
func checkNode(t *testing.T, a *Agent, now clock.Time) {
	for i := range a.node.Ports {
		p := &a.node.Ports[i]
		l := &p.Link
		switch {
		case l.Logical < node.Down || l.Logical > node.Active:
			t.Fatalf("port %d is in %v", i, l.Logical)
		case l.WidthEnabled&^l.WidthSupported != 0 || l.SpeedEnabled&^l.SpeedSupported != 0:
			t.Fatalf("port %d has enabled %#x, %#x", i, uint8(l.WidthEnabled), uint8(l.SpeedEnabled))
		case p.MTU.Neighbor == 0 || p.MTU.Neighbor > p.MTU.Cap, p.Lanes.Operational == 0 ||
			p.Lanes.Operational > p.Lanes.Cap:
			t.Fatalf("port %d has MTU %d and %d lanes", i, p.MTU.Neighbor, p.Lanes.Operational)
		case p.Address.LID >= node.FirstMulticastLID || p.Address.LID&(1<<p.Address.LMC-1) != 0:
			t.Fatalf("port %d has LID %#x, LMC %d", i, p.Address.LID, p.Address.LMC)
		case len(p.Lanes.High) > arbitrationRows || len(p.Lanes.Low) > arbitrationRows:
			t.Fatalf("port %d has %d and %d rows", i, len(p.Lanes.High), len(p.Lanes.Low))
		case len(p.GUIDs) > 0 && p.GUIDs[0] != p.GUID:
			t.Fatalf("port %d has GUID %#x, was %#x", i, p.GUIDs[0], p.GUID)
		}
		for _, row := range p.Lanes.SLtoVL {
			for _, vl := range row {
				if vl > 15 {
					t.Fatalf("port %d sends on VL %d", i, vl)
				}
			}
		}
	}
	if tables := a.node.Tables; tables != nil && int(tables.Top) >= len(tables.Linear) {
		t.Fatalf("LinearFDBTop %#x", tables.Top)
	}
	for n := 0; ; n++ {
		if _, _, _, ok := a.NextTrap(now, make([]byte, mad.Size)); !ok {
			break
		}
		if n > maxTraps*len(a.node.Ports) {
			t.Fatal("traps do not end")
		}
	}
	if d := a.Deadline(); d != 0 && d <= now {
		t.Fatalf("due at %d, now is %d", d, now)
	}
}
