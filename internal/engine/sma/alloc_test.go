// SPDX-License-Identifier: Apache-2.0

package sma

import (
	"testing"

	"github.com/ramjet-rdma/ramjet/wire/mad"
	"github.com/ramjet-rdma/ramjet/wire/mad/pm"
	"github.com/ramjet-rdma/ramjet/wire/mad/smp"
)

// TestAllocations: packets are handled without allocating, for each attribute.
func TestAllocations(t *testing.T) {
	w := newWorld(t)
	_, sw := w.line()
	managed(&sw.node.Ports[0], 8)
	var b [mad.Size]byte
	for i := range attributes {
		for _, m := range []mad.Method{mad.MethodGet, mad.MethodSet} {
			p := smp.New(m, attributes[i].id, 0, 1)
			if attributes[i].id == smp.AttrVLArbitration {
				p.Modifier = smp.VLArbitrationModifier(smp.ArbLow, 1)
			}
			handle := func() {
				p.Append(b[:0])
				sw.HandleSMP(w.now, 1, Route{Port: 1}, b[:])
			}
			handle() // tables grow once
			if n := testing.AllocsPerRun(100, handle); n != 0 {
				t.Errorf("method %#x of %s: %v allocations", uint8(m), smp.AttributeName(attributes[i].id), n)
			}
		}
	}
	p := smp.NewDirected(mad.MethodGet, smp.AttrNodeInfo, 0, 1, []uint8{1, 2})
	p.SetHops(1, 2)
	h := mad.Header{BaseVersion: 1, Class: mad.ClassPerf, ClassVersion: 1, Method: mad.MethodGet,
		Attribute: pm.AttrPortCountersExtended}
	for name, f := range map[string]func(){
		"a packet on its way": func() {
			p.Append(b[:0])
			sw.HandleSMP(w.now, 1, Route{Port: 1}, b[:])
		},
		"counters": func() {
			h.Append(b[:0])
			sw.HandleGMP(w.now, 1, b[:])
		},
		"traps": func() {
			sw.LinkChanged(w.now, 1)
			sw.NextTrap(w.now+second, b[:])
		},
	} {
		f()
		if n := testing.AllocsPerRun(100, f); n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}
