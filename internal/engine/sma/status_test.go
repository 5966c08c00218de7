// SPDX-License-Identifier: Apache-2.0

package sma

import (
	"testing"

	"github.com/ramjet-rdma/ramjet/internal/engine/node"
	"github.com/ramjet-rdma/ramjet/wire/mad"
	"github.com/ramjet-rdma/ramjet/wire/mad/smp"
)

// TestStatus has requests that cannot be carried out, and the status of section 13.4.7 that they are
// answered with.
func TestStatus(t *testing.T) {
	const set, get = mad.MethodSet, mad.MethodGet
	for _, c := range []struct {
		why      string
		onCA     bool
		method   mad.Method
		attr     mad.Attribute
		modifier uint32
		want     mad.Status
	}{
		{"Send is no method of this class", false, mad.MethodSend, smp.AttrNodeInfo, 0, mad.StatusUnsupportedMethod},
		{"nor is Report", false, mad.MethodReport, mad.AttrNotice, 0, mad.StatusUnsupportedMethod},
		{"nor GetTable", false, 0x12, smp.AttrNodeInfo, 0, mad.StatusUnsupportedMethod},
		{"NodeInfo cannot be set", false, set, smp.AttrNodeInfo, 0, mad.StatusUnsupportedAttribute},
		{"nor NodeDescription", false, set, smp.AttrNodeDescription, 0, mad.StatusUnsupportedAttribute},
		{"adapters do not forward", true, get, smp.AttrSwitchInfo, 0, mad.StatusUnsupportedAttribute},
		{"", true, set, smp.AttrSwitchInfo, 0, mad.StatusUnsupportedAttribute},
		{"", true, get, smp.AttrLinearTable, 0, mad.StatusUnsupportedAttribute},
		{"", true, get, smp.AttrMulticastTable, 0, mad.StatusUnsupportedAttribute},
		{"there is no random table", false, get, smp.AttrRandomTable, 0, mad.StatusUnsupportedAttribute},
		{"LedInfo is optional", false, get, smp.AttrLedInfo, 0, mad.StatusUnsupportedAttribute},
		{"so are vendors'", false, get, 0xff10, 0, mad.StatusUnsupportedAttribute},
		{"SMInfo without a manager", false, get, smp.AttrSMInfo, 0, mad.StatusUnsupportedAttribute},
		{"", false, set, smp.AttrSMInfo, 1, mad.StatusUnsupportedAttribute},
		{"port 5 of 4", false, get, smp.AttrPortInfo, 5, mad.StatusInvalidField},
		{"", false, set, smp.AttrPortInfo, 5, mad.StatusInvalidField},
		{"reserved bits name no port", false, get, smp.AttrPortInfo, 1 << 30, mad.StatusInvalidField},
		{"port 2 of 1", true, get, smp.AttrPortInfo, 2, mad.StatusInvalidField},
		{"block 2 of 1", true, get, smp.AttrPKeyTable, 1, mad.StatusInvalidField},
		{"", true, set, smp.AttrPKeyTable, 0xffff, mad.StatusInvalidField},
		{"a switch's port 5", false, get, smp.AttrPKeyTable, smp.PKeyModifier(5, 0), mad.StatusInvalidField},
		{"block 2 of 1", true, get, smp.AttrGUIDInfo, 1, mad.StatusInvalidField},
		{"", true, set, smp.AttrGUIDInfo, 0xffff_ffff, mad.StatusInvalidField},
		{"output port 5", false, get, smp.AttrSLtoVL, smp.SLtoVLModifier(0, 5), mad.StatusInvalidField},
		{"input port 5", false, set, smp.AttrSLtoVL, smp.SLtoVLModifier(5, 1), mad.StatusInvalidField},
		{"all ports at once", false, set, smp.AttrSLtoVL, 1 << 16, mad.StatusInvalidField},
		{"part 0", false, get, smp.AttrVLArbitration, smp.VLArbitrationModifier(0, 1), mad.StatusInvalidField},
		{"part 5", false, set, smp.AttrVLArbitration, smp.VLArbitrationModifier(5, 1), mad.StatusInvalidField},
		{"port 5", false, set, smp.AttrVLArbitration, smp.VLArbitrationModifier(1, 5), mad.StatusInvalidField},
		{"LIDs from 0xc000 on", false, get, smp.AttrLinearTable, 768, mad.StatusInvalidField},
		{"", false, set, smp.AttrLinearTable, 0xffff_ffff, mad.StatusInvalidField},
		{"groups beyond the table", false, get, smp.AttrMulticastTable, smp.MulticastModifier(0, 32),
			mad.StatusInvalidField},
		{"ports beyond the switch", false, set, smp.AttrMulticastTable, smp.MulticastModifier(1, 0),
			mad.StatusInvalidField},
		{"reserved bits", false, get, smp.AttrMulticastTable, 1 << 9, mad.StatusInvalidField},
	} {
		w := newWorld(t)
		ca, sw := w.line()
		a := sw
		if c.onCA {
			a = ca
		}
		if r := w.ask(a, 1, c.method, c.attr, c.modifier, 0, nil); r == nil || r.Status() != c.want {
			t.Errorf("%s: method %#x of %s, modifier %#x: %v, want %v", c.why, uint8(c.method),
				smp.AttributeName(c.attr), c.modifier, r, c.want)
		}
		// A directed route is answered with the same status below its direction.
		if c.method == get && !c.onCA {
			if r := w.directed(ca, c.method, c.attr, c.modifier, nil, 1); r == nil || r.Status() != c.want {
				t.Errorf("%s: along a directed route %v, want %v", c.why, r, c.want)
			}
		}
	}
}

// TestVersions: 13.4.7, code 1.
func TestVersions(t *testing.T) {
	w := newWorld(t)
	_, sw := w.line()
	for _, c := range []struct{ base, class uint8 }{{0, 1}, {2, 1}, {0x80, 1}, {1, 0}, {1, 2}} {
		p := smp.New(mad.MethodGet, smp.AttrNodeInfo, 0, 1)
		p.BaseVersion, p.ClassVersion = c.base, c.class
		b := p.Append(nil)
		if v := sw.HandleSMP(w.now, 1, Route{Port: 1}, b); v != Reply || !p.Decode(b) ||
			p.Status() != mad.StatusUnsupportedVersion {
			t.Errorf("versions %d and %d: verdict %d, status %v", c.base, c.class, v, p.Status())
		}
		// A datagram that never has an answer has none with a wrong version.
		p = smp.New(mad.MethodTrapRepress, mad.AttrNotice, 0, 1)
		p.BaseVersion, p.ClassVersion = c.base, c.class
		if v := sw.HandleSMP(w.now, 1, Route{Port: 1}, p.Append(nil)); v != Drop {
			t.Errorf("versions %d and %d: TrapRepress got verdict %d", c.base, c.class, v)
		}
	}
}

// TestOtherClass: datagrams of classes other than subnet management are dropped.
func TestOtherClass(t *testing.T) {
	w := newWorld(t)
	_, sw := w.line()
	for _, c := range []mad.Class{0, mad.ClassPerf, mad.ClassCM, 0x80, 0xff} {
		p := smp.New(mad.MethodGet, smp.AttrNodeInfo, 0, 1)
		p.Class = c
		if v := sw.HandleSMP(w.now, 1, Route{Port: 1}, p.Append(nil)); v != Drop {
			t.Errorf("class %#x: verdict %d", uint8(c), v)
		}
	}
}

// TestDeliver: packets for managers go to the manager at the node (13.4.5, 14.4.1).
func TestDeliver(t *testing.T) {
	for _, c := range []struct {
		what    string
		method  mad.Method
		attr    mad.Attribute
		manager bool // there is one at the node
		want    Verdict
	}{
		{"responses", mad.MethodGetResp, smp.AttrNodeInfo, false, Deliver},
		{"unknown responses", 0x92, smp.AttrNodeInfo, false, Deliver},
		{"traps", mad.MethodTrap, mad.AttrNotice, false, Deliver},
		{"SMInfo", mad.MethodGet, smp.AttrSMInfo, true, Deliver},
		{"a handover", mad.MethodSet, smp.AttrSMInfo, true, Deliver},
		{"SMInfo without a manager", mad.MethodGet, smp.AttrSMInfo, false, Reply},
		{"PortInfo", mad.MethodGet, smp.AttrPortInfo, true, Reply},
	} {
		w := newWorld(t)
		ca, _ := w.line()
		ca.node.Ports[1].Authority = node.Authority{MKey: 5, Protect: 0}
		if c.manager {
			ca.node.Ports[1].CapMask = uint32(smp.CapSM)
		}
		p := smp.New(c.method, c.attr, 0, 1) // without the M_Key: managers do not have each other's
		before := p
		b := p.Append(nil)
		if v := ca.HandleSMP(w.now, 1, Route{SLID: 4, DLID: 5, Port: 1}, b); v != c.want {
			t.Errorf("%s: verdict %d, want %d", c.what, v, c.want)
		}
		if p.Decode(b); c.want == Deliver && p != before {
			t.Errorf("%s: what is delivered was changed", c.what)
		}
	}
}

// TestSMInfoDirected: a manager's question to another one along a directed route is delivered there, and
// its answer, sent by that manager, comes back (C14-13 (1)).
func TestSMInfoDirected(t *testing.T) {
	w := newWorld(t)
	ca, _, _, last := chain(w)
	last.node.Ports[2].CapMask = uint32(smp.CapSM)
	p := smp.NewDirected(mad.MethodGet, smp.AttrSMInfo, 0, 9, []uint8{1, 7, 3})
	if to := w.send(ca, 1, &p); to != last {
		t.Fatal("the question did not come to the manager")
	}
	p.Method = mad.MethodGetResp
	p.SetReturning()
	(&smp.SMInfo{GUID: 0x42}).Append(p.Data[:0])
	var m smp.SMInfo
	if to := w.send(last, 2, &p); to != ca || !m.Decode(p.Data[:]) || m.GUID != 0x42 {
		t.Errorf("the answer did not come back: %+v", m)
	}
}
