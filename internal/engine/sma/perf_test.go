// SPDX-License-Identifier: Apache-2.0

package sma

import (
	"math"
	"testing"

	"github.com/ramjet-rdma/ramjet/internal/engine/node"
	"github.com/ramjet-rdma/ramjet/wire/mad"
	"github.com/ramjet-rdma/ramjet/wire/mad/pm"
)

// perf sends an agent a request of performance management at port 1, and returns its status.
func (w *world) perf(a *Agent, m mad.Method, attr mad.Attribute, data codec) mad.Status {
	w.t.Helper()
	h := mad.Header{BaseVersion: 1, Class: mad.ClassPerf, ClassVersion: 1, Method: m, TID: 7, Attribute: attr}
	var b [mad.Size]byte
	h.Append(b[:0])
	if data != nil {
		data.Append(b[:pm.DataOffset])
	}
	if !a.HandleGMP(w.now, 1, b[:]) {
		w.t.Fatalf("method %#x of attribute %#x is not served", uint8(m), uint16(attr))
	}
	h.Decode(b[:])
	if h.Method != mad.MethodGetResp || h.TID != 7 || h.Attribute != attr {
		w.t.Fatalf("response %+v", h)
	}
	if data != nil {
		data.Decode(b[pm.DataOffset:])
	}
	return h.Status
}

// counted is a port that has counted n + i in counter i, in the order of PortCountersExtended.
func counted(p *node.Port, n uint64) {
	for i, c := range fields(&p.Counters) {
		*c = n + uint64(i)
	}
}

// TestPortCounters: 16.1.3.5.
func TestPortCounters(t *testing.T) {
	w := newWorld(t)
	ca, _ := w.line()
	p := &ca.node.Ports[1]
	counted(p, 1)
	c := pm.PortCounters{Port: 1}
	if s := w.perf(ca, mad.MethodGet, pm.AttrPortCounters, &c); s != mad.StatusOK || c != (pm.PortCounters{Port: 1,
		XmitData: 1, RcvData: 2, XmitPkts: 3, RcvPkts: 4, SymbolErrors: 9, LinkErrorRecovery: 10, LinkDowned: 11,
		RcvErrors: 12, RcvRemotePhysical: 13, RcvSwitchRelay: 14, XmitDiscards: 15, XmitConstraint: 16,
		RcvConstraint: 17, LocalIntegrity: 15,
		BufferOverrun: 15, VL15Dropped: 20, XmitWait: 21}) {
		t.Errorf("status %v, counters %+v", s, c)
	}
	// Counters stop at the largest value of their fields.
	for _, n := range []uint64{1 << 32, math.MaxUint64 - 30} {
		counted(p, n)
		c = pm.PortCounters{Port: 1}
		w.perf(ca, mad.MethodGet, pm.AttrPortCounters, &c)
		const m8, m16, m32 = math.MaxUint8, math.MaxUint16, math.MaxUint32
		if c != (pm.PortCounters{Port: 1, XmitData: m32, RcvData: m32, XmitPkts: m32, RcvPkts: m32, SymbolErrors: m16,
			LinkErrorRecovery: m8, LinkDowned: m8, RcvErrors: m16, RcvRemotePhysical: m16, RcvSwitchRelay: m16,
			XmitDiscards:   m16,
			XmitConstraint: m8, RcvConstraint: m8,
			LocalIntegrity: 15, BufferOverrun: 15, VL15Dropped: m16, XmitWait: m32}) {
			t.Errorf("from %d on: %+v", n, c)
		}
	}
	// A Set writes the counters that are selected, and answers with all.
	for bit := range 18 {
		counted(p, 1)
		before := p.Counters
		c = pm.PortCounters{Port: 1, Select: 1 << bit}
		if s := w.perf(ca, mad.MethodSet, pm.AttrPortCounters, &c); s != mad.StatusOK || c.Port != 1 ||
			c.Select != 1<<bit {
			t.Errorf("bit %d: status %v, port %d, selection %#x", bit, s, c.Port, c.Select)
		}
		cleared := 0
		was := fields(&before)
		for i, f := range fields(&p.Counters) {
			if *f == 0 {
				cleared++
			} else if *f != *was[i] {
				t.Errorf("bit %d: counter %d is %d, was %d", bit, i, *f, *was[i])
			}
		}
		// bit 17 is QP1Dropped, which is not counted
		if want := 1; bit < 17 && cleared != want || bit == 17 && cleared != 0 {
			t.Errorf("bit %d clears %d counters", bit, cleared)
		}
	}
	// Which bit is which.
	counted(p, 1)
	c = pm.PortCounters{Port: 1, Select: pm.XmitWait | pm.SymbolErrors | pm.RcvPkts, SymbolErrors: 3}
	w.perf(ca, mad.MethodSet, pm.AttrPortCounters, &c)
	if n := &p.Counters; n.XmitWait != 0 || n.SymbolErrors != 3 || n.RcvPkts != 0 || n.XmitPkts != 3 ||
		c.SymbolErrors != 3 || c.RcvPkts != 0 {
		t.Errorf("after a Set: %+v", *n)
	}
}

// TestPortCountersExtended: 16.1.4.11.
func TestPortCountersExtended(t *testing.T) {
	w := newWorld(t)
	ca, _ := w.line()
	p := &ca.node.Ports[1]
	for _, n := range []uint64{1, 1 << 40} {
		counted(p, n)
		c := pm.PortCountersExtended{Port: 1}
		c.Errors[13] = 99
		w.perf(ca, mad.MethodGet, pm.AttrPortCountersExtended, &c)
		for i, got := range c.Traffic {
			if got != n+uint64(i) {
				t.Errorf("traffic %d is %d, want %d", i, got, n+uint64(i))
			}
		}
		for i, got := range c.Errors {
			if want := n + 8 + uint64(i); got != want && i < 13 || i == 13 && got != 0 {
				t.Errorf("errors %d is %d, want %d", i, got, want)
			}
		}
	}
	counted(p, 1)
	c := pm.PortCountersExtended{Port: 1, Select: pm.ExtRcvData | pm.ExtMulticastRcv | pm.ExtXmitWait |
		pm.ExtLinkDowned}
	w.perf(ca, mad.MethodSet, pm.AttrPortCountersExtended, &c)
	want := p.Counters
	counted(p, 1)
	p.Counters.RcvData, p.Counters.MulticastRcv, p.Counters.XmitWait, p.Counters.LinkDowned = 0, 0, 0, 0
	if want != p.Counters || c.Traffic[1] != 0 || c.Traffic[0] != 1 || c.Errors[12] != 0 {
		t.Errorf("after a Set: %+v", want)
	}
	// Bits that name no counter change nothing.
	c = pm.PortCountersExtended{Port: 1, Select: 0xff00 | 0xffff_e000<<32}
	w.perf(ca, mad.MethodSet, pm.AttrPortCountersExtended, &c)
	if want != p.Counters {
		t.Errorf("reserved bits changed %+v", p.Counters)
	}
}

// TestPortSelect: PortSelect 255 is the sum of all ports, of which a switch has port 0, too; a Set with
// it is for each.
func TestPortSelect(t *testing.T) {
	w := newWorld(t)
	ca, sw := w.add(node.CA, 0x10, 2), w.add(node.Switch, 0x20, 4)
	for _, a := range []*Agent{ca, sw} {
		for i := range a.node.Ports {
			a.node.Ports[i].Counters.XmitPkts = 1 << i
			a.node.Ports[i].Counters.SymbolErrors = math.MaxUint64 - 5
			a.node.Ports[i].Counters.RcvErrors = 0xfff0
		}
	}
	for _, c := range []struct {
		a    *Agent
		port uint8
		want mad.Status
		pkts uint32
	}{
		{ca, 1, mad.StatusOK, 2}, {ca, 2, mad.StatusOK, 4}, {ca, 0, mad.StatusInvalidField, 0},
		{ca, 3, mad.StatusInvalidField, 0},
		{ca, pm.AllPorts, mad.StatusOK, 6}, {sw, 0, mad.StatusOK, 1}, {sw, 4, mad.StatusOK, 16},
		{sw, 5, mad.StatusInvalidField, 0},
		{sw, 254, mad.StatusInvalidField, 0}, {sw, pm.AllPorts, mad.StatusOK, 31},
	} {
		m, e := pm.PortCounters{Port: c.port}, pm.PortCountersExtended{Port: c.port}
		if s := w.perf(c.a, mad.MethodGet, pm.AttrPortCounters, &m); s != c.want || m.XmitPkts != c.pkts {
			t.Errorf("port %d: %v, %d packets; want %v, %d", c.port, s, m.XmitPkts, c.want, c.pkts)
		}
		if s := w.perf(c.a, mad.MethodGet, pm.AttrPortCountersExtended, &e); s != c.want ||
			e.Traffic[2] != uint64(c.pkts) {
			t.Errorf("port %d: %v, %d packets; want %v, %d", c.port, s, e.Traffic[2], c.want, c.pkts)
		}
		// A sum stops at the largest value as well.
		if c.port == pm.AllPorts && (m.RcvErrors != math.MaxUint16 || e.Errors[0] != math.MaxUint64) {
			t.Errorf("sums %d and %d", m.RcvErrors, e.Errors[0])
		}
	}
	m := pm.PortCounters{Port: pm.AllPorts, Select: pm.XmitPkts}
	if w.perf(sw, mad.MethodSet, pm.AttrPortCounters, &m); m.XmitPkts != 0 || sw.node.Ports[4].Counters.XmitPkts != 0 ||
		m.RcvErrors == 0 {
		t.Errorf("after a Set of all: %+v", m)
	}
}

// TestPerfClass: ClassPortInfo says what is supported (16.1.2.1), unsupported attributes have a status of 13.4.7,
// and datagrams that are no requests are left to others.
func TestPerfClass(t *testing.T) {
	w := newWorld(t)
	_, sw := w.line()
	var c mad.ClassPortInfo
	if s := w.perf(sw, mad.MethodGet, mad.AttrClassPortInfo, &c); s != mad.StatusOK || c.BaseVersion != 1 ||
		c.ClassVersion != 1 || c.RespTime != 16 ||
		c.CapMask != pm.CapAllPorts|pm.CapExtended|pm.CapXmitWait|mad.CapCapabilityMask2 ||
		c.CapMask2 != pm.Cap2ExtendedErrors || c.Redirect.LID != 0 {
		t.Errorf("status %v, %+v", s, c)
	}
	for _, x := range []struct {
		method mad.Method
		attr   mad.Attribute
		want   mad.Status
	}{
		{mad.MethodSet, mad.AttrClassPortInfo, mad.StatusUnsupportedAttribute},
		{mad.MethodGet, pm.AttrPortSamplesControl, mad.StatusUnsupportedAttribute},
		{mad.MethodGet, 0xff00, mad.StatusUnsupportedAttribute},
		{mad.MethodSend, pm.AttrPortCounters, mad.StatusUnsupportedMethod},
		{0x12, pm.AttrPortCounters, mad.StatusUnsupportedMethod},
	} {
		if s := w.perf(sw, x.method, x.attr, nil); s != x.want {
			t.Errorf("method %#x, attribute %#x: %v, want %v", uint8(x.method), uint16(x.attr), s, x.want)
		}
	}
	request := mad.Header{BaseVersion: 1, Class: mad.ClassPerf, ClassVersion: 1, Method: mad.MethodGet,
		Attribute: mad.AttrClassPortInfo}
	try := func(h mad.Header, port, size int) (mad.Status, bool) {
		b := make([]byte, mad.Size)
		h.Append(b[:0])
		ok := sw.HandleGMP(w.now, port, b[:size])
		h.Decode(b)
		return h.Status, ok
	}
	for _, v := range []uint8{0, 2} {
		h := request
		if h.ClassVersion = v; true {
			if s, ok := try(h, 1, mad.Size); !ok || s != mad.StatusUnsupportedVersion {
				t.Errorf("class version %d: %v, %v", v, ok, s)
			}
		}
		h = request
		h.BaseVersion = v
		if s, ok := try(h, 1, mad.Size); !ok || s != mad.StatusUnsupportedVersion {
			t.Errorf("base version %d: %v, %v", v, ok, s)
		}
	}
	for _, m := range []mad.Method{mad.MethodGetResp, mad.MethodTrap, mad.MethodTrapRepress, mad.MethodReport,
		mad.MethodReportResp} {
		h := request
		h.Method = m
		if _, ok := try(h, 1, mad.Size); ok {
			t.Errorf("method %#x is served", uint8(m))
		}
	}
	for _, class := range []mad.Class{mad.ClassCM, mad.ClassSubnet, 3} {
		h := request
		h.Class = class
		if _, ok := try(h, 1, mad.Size); ok {
			t.Errorf("class %#x is served", uint8(class))
		}
	}
	if _, ok := try(request, 1, mad.Size-1); ok {
		t.Error("255 bytes are served")
	}
	for _, port := range []int{-1, 5} {
		if _, ok := try(request, port, mad.Size); ok {
			t.Errorf("port %d of 4 is served", port)
		}
	}
}
