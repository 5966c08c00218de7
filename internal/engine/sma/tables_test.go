// SPDX-License-Identifier: Apache-2.0

package sma

import (
	"slices"
	"testing"

	"github.com/ramjet-rdma/ramjet/internal/engine/node"
	"github.com/ramjet-rdma/ramjet/wire/ib"
	"github.com/ramjet-rdma/ramjet/wire/mad"
	"github.com/ramjet-rdma/ramjet/wire/mad/smp"
)

// TestNodeInfo: 14.2.5.3. The port's GUID is that of the port that the request came in at; a switch has
// one for all, that of port 0.
func TestNodeInfo(t *testing.T) {
	w := newWorld(t)
	ca, sw := w.add(node.CA, 0x10, 2), w.add(node.Switch, 0x20, 4)
	sw.node.VendorID, sw.node.DeviceID, sw.node.Revision, sw.node.SystemGUID = 0x123456, 7, 8, 9
	sw.node.Description = "a switch"
	var m smp.NodeInfo
	w.get(ca, 2, smp.AttrNodeInfo, 0, &m)
	if m != (smp.NodeInfo{BaseVersion: 1, ClassVersion: 1, NodeType: 1, NumPorts: 2, SystemGUID: 0x10, NodeGUID: 0x10,
		PortGUID: 0x12, PartitionCap: 32, LocalPort: 2}) {
		t.Errorf("the adapter at port 2 is %+v", m)
	}
	w.get(sw, 3, smp.AttrNodeInfo, 0, &m)
	if m != (smp.NodeInfo{BaseVersion: 1, ClassVersion: 1, NodeType: 2, NumPorts: 4, SystemGUID: 9, NodeGUID: 0x20,
		PortGUID: 0x20, PartitionCap: 32, DeviceID: 7, Revision: 8, LocalPort: 3, VendorID: 0x123456}) {
		t.Errorf("the switch at port 3 is %+v", m)
	}
	var d smp.NodeDescription
	if w.get(sw, 3, smp.AttrNodeDescription, 0, &d); d.String() != "a switch" {
		t.Errorf("the switch is described as %q", d.String())
	}
	// Fields that a response does not fill are 0, not the request's.
	r := w.ask(sw, 3, mad.MethodGet, smp.AttrNodeInfo, 0, 0, slices.Repeat([]byte{0xff}, smp.DataLen))
	if !slices.Equal(r.Data[smp.NodeInfoLen:], make([]byte, smp.DataLen-smp.NodeInfoLen)) {
		t.Errorf("behind NodeInfo is %x", r.Data[smp.NodeInfoLen:])
	}
}

// TestSwitchInfo: 14.2.5.4.
func TestSwitchInfo(t *testing.T) {
	w := newWorld(t)
	_, sw := w.line()
	sw.LinkChanged(w.now, 1)
	var m smp.SwitchInfo
	w.get(sw, 1, smp.AttrSwitchInfo, 0, &m)
	if m.LinearCap != 0xc000 || m.MulticastCap != 1024 || m.RandomCap != 0 || m.EnforcementCap != 32 ||
		m.Flags != smp.SwitchEnforcesIn|smp.SwitchEnforcesOut || !m.PortStateChange || m.PrimaryMulticast != 255 ||
		m.LifeTime != 20 {
		t.Fatalf("SwitchInfo is %+v", m)
	}
	// The switch's own values cannot be set; PortStateChange is not cleared by a 0.
	was := m
	m = smp.SwitchInfo{LinearCap: 1, RandomCap: 2, MulticastCap: 3, LinearTop: 17, LifeTime: 9, PrimaryMulticast: 2,
		NotPrimaryMulticast: 4}
	w.set(sw, 1, smp.AttrSwitchInfo, 0, &m)
	was.LinearTop, was.LifeTime, was.PrimaryMulticast, was.NotPrimaryMulticast = 17, 9, 2, 4
	if m != was {
		t.Errorf("after a Set it is\n%+v, want\n%+v", m, was)
	}
	// It is cleared by a 1.
	if w.set(sw, 1, smp.AttrSwitchInfo, 0, &m); m.PortStateChange {
		t.Error("PortStateChange stays")
	}
	for why, c := range map[string]smp.SwitchInfo{"LinearFDBTop beyond the table": {LinearTop: 0xc000},
		"a port that there is not": {PrimaryMulticast: 5}, "nor this": {NotPrimaryMulticast: 254}} {
		w.status(w.ask(sw, 1, mad.MethodSet, smp.AttrSwitchInfo, 0, 0, c.Append(nil)), mad.StatusInvalidField)
		if w.get(sw, 1, smp.AttrSwitchInfo, 0, &m); m.LinearTop != 17 || m.PrimaryMulticast != 2 {
			t.Errorf("%s: set", why)
		}
	}
}

// TestLinearTable: a block has 64 LIDs, and there are 768 blocks (14.2.5.10).
func TestLinearTable(t *testing.T) {
	w := newWorld(t)
	_, sw := w.line()
	var m smp.LinearTable
	for _, block := range []uint32{0, 1, 767} {
		if w.get(sw, 1, smp.AttrLinearTable, block, &m); m[0] != node.NoRoute || m[63] != node.NoRoute {
			t.Errorf("block %d before anybody sets it: %v", block, m)
		}
		for i := range m {
			m[i] = uint8(i) + uint8(block)
		}
		want := m
		if w.set(sw, 1, smp.AttrLinearTable, block, &m); m != want {
			t.Errorf("block %d is %v, want %v", block, m, want)
		}
		if got := sw.node.Tables.Linear[64*block+5]; got != 5+uint8(block) {
			t.Errorf("LID %d leaves by %d", 64*block+5, got)
		}
	}
	if got := sw.node.Tables.Linear[128]; got != node.NoRoute {
		t.Errorf("the block behind has %d", got)
	}
}

// TestMulticastTable: a block has 32 LIDs, and 16 ports of each (14.2.5.12).
func TestMulticastTable(t *testing.T) {
	w := newWorld(t)
	sw := w.add(node.Switch, 0x20, 70)
	for _, position := range []uint8{0, 3, 4} {
		var m smp.MulticastTable
		for i := range m {
			m[i] = 0xf00f
		}
		mod := smp.MulticastModifier(position, 31)
		want := m
		if position == 4 { // ports 64 to 79, of which there are 64 to 70
			for i := range want {
				want[i] = 0x000f
			}
		}
		if w.set(sw, 1, smp.AttrMulticastTable, mod, &m); m != want {
			t.Errorf("position %d is %x, want %x", position, m, want)
		}
	}
	if got := sw.node.Tables.Multicast[1023]; got != [4]uint64{0xf00f_0000_0000_f00f, 0xf, 0, 0} {
		t.Errorf("LID 0xc3ff goes to %x", got)
	}
	if got := sw.node.Tables.Multicast[991]; got != [4]uint64{} {
		t.Errorf("the block before has %x", got)
	}
	// Setting one position leaves the others.
	var m smp.MulticastTable
	w.set(sw, 1, smp.AttrMulticastTable, smp.MulticastModifier(3, 31), &m)
	if got := sw.node.Tables.Multicast[1000]; got != [4]uint64{0xf00f, 0xf, 0, 0} {
		t.Errorf("LID 0xc3e8 goes to %x", got)
	}
}

// TestPKeyTable: an adapter's port has as many rows as PartitionCap, a switch's external port as
// PartitionEnforcementCap (14.2.5.7).
func TestPKeyTable(t *testing.T) {
	w := newWorld(t)
	spec := node.DefaultSpec
	spec.PKeys = 40
	ca, sw := New(node.New(node.CA, 0x10, "ca", 2, spec)), New(node.New(node.Switch, 0x20, "sw", 4, spec))
	sw.node.Tables.EnforcementCap = 35
	var m smp.PKeyTable
	if w.get(ca, 1, smp.AttrPKeyTable, 0, &m); m[0] != ib.DefaultPKey || m[1] != 0 {
		t.Errorf("at first there is %v", m)
	}
	full := func() (m smp.PKeyTable) {
		for i := range m {
			m[i] = 0x8001 + ib.PKey(i)
		}
		return m
	}
	m = full()
	w.set(ca, 2, smp.AttrPKeyTable, 0, &m)
	// Rows that there are not are ignored, and are 0 in a Get.
	m = full()
	if w.set(ca, 2, smp.AttrPKeyTable, 1, &m); m[7] != 0x8008 || m[8] != 0 {
		t.Errorf("block 1 is %v", m)
	}
	if p := ca.node.Ports[2].Partition.PKeys; p[31] != 0x8020 || p[32] != 0x8001 || p[39] != 0x8008 ||
		ca.node.Ports[1].Partition.PKeys[0] != ib.DefaultPKey {
		t.Errorf("port 2 has %v, port 1 %v", p, ca.node.Ports[1].Partition.PKeys)
	}
	m = full()
	if w.set(sw, 1, smp.AttrPKeyTable, smp.PKeyModifier(3, 1), &m); m[2] != 0x8003 || m[3] != 0 ||
		sw.node.Ports[3].Partition.PKeys[34] != 0x8003 {
		t.Errorf("port 3 of the switch: %v", m)
	}
	m = full()
	if w.set(sw, 1, smp.AttrPKeyTable, smp.PKeyModifier(0, 1), &m); m[7] != 0x8008 || m[8] != 0 ||
		sw.node.Ports[0].Partition.PKeys[32] != 0x8001 {
		t.Errorf("port 0 of the switch: %v", m)
	}
	// A switch that does not enforce has no tables at external ports.
	sw.node.Tables.EnforcementCap = 0
	w.status(w.ask(sw, 1, mad.MethodGet, smp.AttrPKeyTable, smp.PKeyModifier(3, 0), 0, nil), mad.StatusInvalidField)
}

// TestSLtoVL: a switch has a row for each input and output port (14.2.5.8).
func TestSLtoVL(t *testing.T) {
	w := newWorld(t)
	ca, sw := w.line()
	row := func(vl uint8) (m smp.SLtoVL) {
		for i := range m {
			m[i] = (vl + uint8(i)) % 16
		}
		return m
	}
	for in := range uint8(5) {
		for out := range uint8(5) {
			m := row(in + 4*out)
			w.set(sw, 1, smp.AttrSLtoVL, smp.SLtoVLModifier(in, out), &m)
		}
	}
	for in := range uint8(5) {
		for out := range uint8(5) {
			var m smp.SLtoVL
			if w.get(sw, 1, smp.AttrSLtoVL, smp.SLtoVLModifier(in, out), &m); m != row(in+4*out) ||
				sw.node.Ports[out].Lanes.SLtoVL[in] != row(in+4*out) {
				t.Errorf("from port %d to %d: %v", in, out, m)
			}
		}
	}
	m := row(3)
	if w.set(ca, 1, smp.AttrSLtoVL, 0, &m); ca.node.Ports[1].Lanes.SLtoVL[0] != row(3) {
		t.Errorf("the adapter has %v", ca.node.Ports[1].Lanes.SLtoVL[0])
	}
}

// TestArbitration: four parts of 32 rows make the two tables of a port (14.2.5.9).
func TestArbitration(t *testing.T) {
	w := newWorld(t)
	ca, sw := w.line()
	var info smp.PortInfo
	if w.get(sw, 1, smp.AttrPortInfo, 2, &info); info.Lanes.ArbHighCap != 64 || info.Lanes.ArbLowCap != 64 {
		t.Errorf("tables of %d and %d rows", info.Lanes.ArbHighCap, info.Lanes.ArbLowCap)
	}
	table := func(n uint8) (m smp.VLArbitration) {
		for i := range m {
			m[i] = smp.ArbEntry{VL: uint8(i) % 8, Weight: n + uint8(i)}
		}
		return m
	}
	// Upper parts may come first: rows below them have no weight then.
	for _, part := range []uint16{smp.ArbHighUpper, smp.ArbLow, smp.ArbHigh, smp.ArbLowUpper} {
		m := table(uint8(part))
		if w.set(sw, 1, smp.AttrVLArbitration, smp.VLArbitrationModifier(part, 2), &m); m != table(uint8(part)) {
			t.Errorf("part %d is %v", part, m)
		}
		if part == smp.ArbHighUpper && sw.node.Ports[2].Lanes.High[31] != (node.ArbEntry{}) {
			t.Errorf("row 31 is %v", sw.node.Ports[2].Lanes.High[31])
		}
	}
	for part, rows := range map[uint8][]node.ArbEntry{1: sw.node.Ports[2].Lanes.Low[:32],
		2: sw.node.Ports[2].Lanes.Low[32:], 3: sw.node.Ports[2].Lanes.High[:32], 4: sw.node.Ports[2].Lanes.High[32:]} {
		if len(rows) != 32 || rows[9] != (node.ArbEntry{VL: 1, Weight: part + 9}) {
			t.Errorf("part %d is %v", part, rows)
		}
	}
	// The bits above a VL are reserved.
	m := smp.VLArbitration{{VL: 0xf3, Weight: 1}}
	if w.set(ca, 1, smp.AttrVLArbitration, smp.VLArbitrationModifier(smp.ArbLow, 0), &m); m[0].VL != 3 {
		t.Errorf("VL %#x", m[0].VL)
	}
	// 14.2.5.6: with one lane there are no tables.
	ca.node.Ports[1].Lanes.Cap = 1
	w.get(ca, 1, smp.AttrPortInfo, 0, &info)
	w.status(w.ask(ca, 1, mad.MethodGet, smp.AttrVLArbitration, smp.VLArbitrationModifier(smp.ArbLow, 0), 0, nil),
		mad.StatusInvalidField)
	if info.Lanes.ArbLowCap != 0 || info.Lanes.ArbHighCap != 0 {
		t.Errorf("one lane has tables of %d and %d rows", info.Lanes.ArbHighCap, info.Lanes.ArbLowCap)
	}
}

// TestGUIDInfo: the first GUID is the port's own and cannot be set; rows beyond GUIDCap are ignored and
// read as 0 (14.2.5.5).
func TestGUIDInfo(t *testing.T) {
	w := newWorld(t)
	spec := node.DefaultSpec
	spec.GUIDs = 11
	ca := New(node.New(node.CA, 0x10, "ca", 2, spec))
	var m smp.GUIDInfo
	if w.get(ca, 2, smp.AttrGUIDInfo, 0, &m); m != (smp.GUIDInfo{0x12}) {
		t.Errorf("at first there is %x", m)
	}
	m = smp.GUIDInfo{1, 2, 3, 4, 5, 6, 7, 8}
	if w.set(ca, 2, smp.AttrGUIDInfo, 0, &m); m != (smp.GUIDInfo{0x12, 2, 3, 4, 5, 6, 7, 8}) {
		t.Errorf("block 0 is %x", m)
	}
	m = smp.GUIDInfo{1, 2, 3, 4, 5, 6, 7, 8}
	if w.set(ca, 2, smp.AttrGUIDInfo, 1, &m); m != (smp.GUIDInfo{1, 2, 3}) || ca.node.Ports[2].GUIDs[10] != 3 {
		t.Errorf("block 1 is %x", m)
	}
	if ca.node.Ports[1].GUIDs[1] != 0 {
		t.Error("port 1 has GUIDs of port 2")
	}
}

// TestChanged: the node's owner gets a report of each port that a Set has changed, once the response is ready.
func TestChanged(t *testing.T) {
	w := newWorld(t)
	ca, sw := w.line()
	for _, c := range []struct {
		a        *Agent
		attr     mad.Attribute
		modifier uint32
		want     []int
	}{
		{ca, smp.AttrPKeyTable, 0, []int{1}}, {ca, smp.AttrGUIDInfo, 0, []int{1}}, {ca, smp.AttrSLtoVL, 0, []int{1}},
		{sw, smp.AttrPKeyTable, smp.PKeyModifier(3, 0), []int{3}},
		{sw, smp.AttrSLtoVL, smp.SLtoVLModifier(1, 2), []int{2}},
		{sw, smp.AttrVLArbitration, smp.VLArbitrationModifier(1, 4), []int{4}}, {sw, smp.AttrSwitchInfo, 0, []int{0}},
		{sw, smp.AttrSLtoVL, smp.SLtoVLModifier(1, 9), nil},
	} {
		var got []int
		c.a.node.Changed = func(port int) { got = append(got, port) }
		w.ask(c.a, 1, mad.MethodGet, c.attr, c.modifier, 0, nil)
		if got != nil {
			t.Errorf("a Get of %s changed %v", smp.AttributeName(c.attr), got)
		}
		w.ask(c.a, 1, mad.MethodSet, c.attr, c.modifier, 0, nil)
		if !slices.Equal(got, c.want) {
			t.Errorf("a Set of %s changed %v, want %v", smp.AttributeName(c.attr), got, c.want)
		}
	}
}
