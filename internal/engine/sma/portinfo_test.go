// SPDX-License-Identifier: Apache-2.0

package sma

import (
	"slices"
	"testing"

	"github.com/ramjet-rdma/ramjet/internal/engine/node"
	"github.com/ramjet-rdma/ramjet/wire/mad"
	"github.com/ramjet-rdma/ramjet/wire/mad/smp"
)

// TestPortStates has the changes of a port's states that a Set may make (7.2.7, 14.2.5.6: PortState and
// PortPhysicalState), and changes that it may not make.
func TestPortStates(t *testing.T) {
	const (
		down, initialize, armed, active = node.Down, node.Initialize, node.Armed, node.Active
		same                            = node.NoChange
		poll, disabled, up              = node.PhysPolling, node.PhysDisabled, node.PhysLinkUp
		ok, bad                         = mad.StatusOK, mad.StatusInvalidField
	)
	for _, c := range []struct {
		rule     string
		from     node.LinkState
		set      node.LinkState
		phys     node.PhysState
		want     mad.Status
		to       node.LinkState
		wantPhys node.PhysState
	}{
		{"no change", initialize, same, 0, ok, initialize, up},
		{"armed", initialize, armed, 0, ok, armed, up},
		{"active", armed, active, 0, ok, active, up},
		{"already armed", armed, armed, 0, ok, armed, up},
		{"already active", active, active, 0, ok, active, up},
		{"active before armed", initialize, active, 0, bad, initialize, up},
		{"back to armed", active, armed, 0, bad, active, up},
		{"Initialize is the link's", down, initialize, 0, bad, down, poll},
		{"Initialize is the link's", active, initialize, 0, bad, active, up},
		{"armed without a link", down, armed, 0, bad, down, poll},
		{"active without a link", down, active, 0, bad, down, poll},
		{"reserved", initialize, 5, 0, bad, initialize, up},
		{"reserved", initialize, 15, 0, bad, initialize, up},
		{"down, and to train again", active, down, 0, ok, initialize, up},
		{"down from armed", armed, down, 0, ok, initialize, up},
		{"down from Initialize", initialize, down, 0, ok, initialize, up},
		{"down without a link", down, down, 0, ok, down, poll},
		{"disabled", active, down, disabled, ok, down, disabled},
		{"asleep", active, down, node.PhysSleep, ok, down, node.PhysSleep},
		{"disabled by its physical state alone", active, same, disabled, ok, down, disabled},
		{"armed and disabled at once", initialize, armed, disabled, bad, initialize, up},
		{"no port is trained by hand", active, down, node.PhysTraining, bad, active, up},
		{"LinkUp is the link's", active, same, node.PhysLinkUp, bad, active, up},
		{"reserved", active, same, 9, bad, active, up},
	} {
		for _, external := range []bool{false, true} {
			w := newWorld(t)
			a, sw := w.line()
			if external {
				a = sw
			}
			var changed []int
			a.node.Changed = func(port int) { changed = append(changed, port) }
			p := &a.node.Ports[1]
			p.Link.Logical = c.from
			if c.from == down {
				p.Link.Physical = poll
			}
			var m smp.PortInfo
			w.get(a, 1, smp.AttrPortInfo, 1, &m)
			m.Link.State, m.Link.PhysState, m.Link.DownDefault = uint8(c.set), uint8(c.phys), 0
			m.Lanes.HighLimit = 77
			r := w.ask(a, 1, mad.MethodSet, smp.AttrPortInfo, 1, 0, m.Append(nil))
			if r == nil || r.Status() != c.want || p.Link.Logical != c.to || p.Link.Physical != c.wantPhys {
				t.Errorf("%s: %v set to %v, %v: %v, now %v, %v; want %v, %v, %v", c.rule, c.from, c.set, c.phys,
					r.Status(),
					p.Link.Logical, p.Link.Physical, c.want, c.to, c.wantPhys)
			}
			if retrains := c.set == down && c.phys == 0 && c.from != down; p.Link.Retrain != retrains {
				t.Errorf("%s: trains again is %v", c.rule, p.Link.Retrain)
			}
			// A Set that is refused changes nothing, and the node's owner gets no report.
			if carried := p.Lanes.HighLimit == 77; carried != (c.want == ok) ||
				slices.Equal(changed, []int{1}) != carried {
				t.Errorf("%s: carried out %v, ports changed %v", c.rule, carried, changed)
			}
			// The response has the new values.
			if m.Decode(r.Data[:]); c.want == ok &&
				(m.Link.State != uint8(c.to) || m.Link.PhysState != uint8(c.wantPhys)) {
				t.Errorf("%s: the response has state %d, %d", c.rule, m.Link.State, m.Link.PhysState)
			}
		}
	}
	// LinkDownDefaultState is Sleep or Polling.
	w := newWorld(t)
	ca, _ := w.line()
	var m smp.PortInfo
	w.get(ca, 1, smp.AttrPortInfo, 0, &m)
	m.Link.State, m.Link.PhysState, m.Link.DownDefault = uint8(down), 0, uint8(node.PhysSleep)
	if w.set(ca, 1, smp.AttrPortInfo, 0, &m); ca.node.Ports[1].Link.Physical != node.PhysSleep {
		t.Errorf("went to %v", ca.node.Ports[1].Link.Physical)
	}
	m.Link.State, m.Link.PhysState, m.Link.DownDefault = 0, 0, uint8(disabled)
	w.status(w.ask(ca, 1, mad.MethodSet, smp.AttrPortInfo, 0, 0, m.Append(nil)), bad)
}

// TestPortInfoFields sets fields one by one, on the port of an adapter, an external port of a switch and
// its port 0, and reads them back (14.2.5.6).
func TestPortInfoFields(t *testing.T) {
	type ports struct{ ca, ext, zero bool }
	all, link, addressed, external := ports{true, true, true}, ports{true, true, false}, ports{true, false, true},
		ports{false, true, false}
	const ok, bad = mad.StatusOK, mad.StatusInvalidField
	for _, c := range []struct {
		what string
		on   ports // which ports the field is for
		set  func(m *smp.PortInfo)
		want mad.Status // where the field is; elsewhere it is ignored
		is   func(m *smp.PortInfo) bool
	}{
		{"nothing", all, func(m *smp.PortInfo) {}, ok, func(m *smp.PortInfo) bool { return true }},
		{"LID", addressed, func(m *smp.PortInfo) { m.LID = 0xbfff }, ok,
			func(m *smp.PortInfo) bool { return m.LID == 0xbfff }},
		{"a multicast LID", addressed, func(m *smp.PortInfo) { m.LID = 0xc000 }, bad, nil},
		{"LID 0, where there was one", addressed, func(m *smp.PortInfo) { m.LID = 0 }, bad, nil},
		{"MasterSMLID", addressed, func(m *smp.PortInfo) { m.MasterSMLID = 9 }, ok,
			func(m *smp.PortInfo) bool { return m.MasterSMLID == 9 }},
		{"a multicast MasterSMLID", addressed, func(m *smp.PortInfo) { m.MasterSMLID = 0xffff }, bad, nil},
		{"M_Key, level and lease", addressed, func(m *smp.PortInfo) { m.MKey, m.Protect, m.Lease = 0, 1, 60 }, ok,
			func(m *smp.PortInfo) bool { return m.Protect == 1 && m.Lease == 60 }},
		{"GidPrefix", addressed, func(m *smp.PortInfo) { m.GIDPrefix = 0xfec0 << 48 }, ok,
			func(m *smp.PortInfo) bool { return m.GIDPrefix == 0xfec0<<48 }},
		{"SubnetTimeout", addressed, func(m *smp.PortInfo) { m.SubnetTimeout = 20 }, ok,
			func(m *smp.PortInfo) bool { return m.SubnetTimeout == 20 }},
		{"MasterSMSL", addressed, func(m *smp.PortInfo) { m.Lanes.MasterSMSL = 15 }, ok,
			func(m *smp.PortInfo) bool { return m.Lanes.MasterSMSL == 15 }},
		{"ClientReregister is in the response", addressed, func(m *smp.PortInfo) { m.ClientReregister = true }, ok,
			func(m *smp.PortInfo) bool { return m.ClientReregister }},

		{"widths", link, func(m *smp.PortInfo) { m.Link.WidthEnabled = 1 }, ok,
			func(m *smp.PortInfo) bool { return m.Link.WidthEnabled == 1 }},
		{"all widths", link, func(m *smp.PortInfo) { m.Link.WidthEnabled = smp.WidthAll }, ok,
			func(m *smp.PortInfo) bool { return m.Link.WidthEnabled == 3 }},
		{"no change of widths", link, func(m *smp.PortInfo) { m.Link.WidthEnabled = 0 }, ok,
			func(m *smp.PortInfo) bool { return m.Link.WidthEnabled == 3 }},
		{"a width that is not supported", link, func(m *smp.PortInfo) { m.Link.WidthEnabled = 8 }, bad, nil},
		{"speeds", link, func(m *smp.PortInfo) { m.Link.SpeedEnabled = 3 }, ok,
			func(m *smp.PortInfo) bool { return m.Link.SpeedEnabled == 3 && m.Link.SpeedExtEnabled == 3 }},
		{"all speeds", link, func(m *smp.PortInfo) { m.Link.SpeedEnabled = smp.SpeedAll }, ok,
			func(m *smp.PortInfo) bool { return m.Link.SpeedEnabled == 7 }},
		{"a speed that there is not", link, func(m *smp.PortInfo) { m.Link.SpeedEnabled = 8 }, bad, nil},
		{"NeighborMTU", link, func(m *smp.PortInfo) { m.Lanes.NeighborMTU = 4 }, ok,
			func(m *smp.PortInfo) bool { return m.Lanes.NeighborMTU == 4 }},
		{"NeighborMTU above the own", link, func(m *smp.PortInfo) { m.Lanes.NeighborMTU = 6 }, bad, nil},
		{"no NeighborMTU", link, func(m *smp.PortInfo) { m.Lanes.NeighborMTU = 0 }, bad, nil},
		{"OperationalVLs", link, func(m *smp.PortInfo) { m.Lanes.OperationalVLs = 4 }, ok,
			func(m *smp.PortInfo) bool { return m.Lanes.OperationalVLs == 4 }},
		{"no change of OperationalVLs", link, func(m *smp.PortInfo) { m.Lanes.OperationalVLs = 0 }, ok,
			func(m *smp.PortInfo) bool { return m.Lanes.OperationalVLs == 1 }},
		{"more OperationalVLs than there are", link, func(m *smp.PortInfo) { m.Lanes.OperationalVLs = 5 }, bad, nil},
		{"a reserved number of VLs", link, func(m *smp.PortInfo) { m.Lanes.OperationalVLs = 6 }, bad, nil},
		{"VLHighLimit", link, func(m *smp.PortInfo) { m.Lanes.HighLimit = 200 }, ok,
			func(m *smp.PortInfo) bool { return m.Lanes.HighLimit == 200 }},
		{"thresholds", link, func(m *smp.PortInfo) { m.Violations.LocalPhyErrors, m.Violations.OverrunErrors = 8, 9 },
			ok, func(m *smp.PortInfo) bool {
				return m.Violations.LocalPhyErrors == 8 && m.Violations.OverrunErrors == 9
			}},

		{"HOQLife and VLStallCount", external,
			func(m *smp.PortInfo) { m.Lanes.HOQLife, m.Lanes.StallCount = 12, 7 }, ok,
			func(m *smp.PortInfo) bool { return m.Lanes.HOQLife == 12 && m.Lanes.StallCount == 7 }},
		{"partition enforcement", external,
			func(m *smp.PortInfo) { m.Lanes.EnforceIn, m.Lanes.EnforceOut = true, true }, ok,
			func(m *smp.PortInfo) bool { return m.Lanes.EnforceIn && m.Lanes.EnforceOut }},
	} {
		for _, port := range []struct {
			name string
			num  uint32
			has  bool
		}{{"an adapter's port", 1, c.on.ca}, {"an external port", 1, c.on.ext}, {"port 0", 0, c.on.zero}} {
			w := newWorld(t)
			a, sw := w.line()
			if port.name != "an adapter's port" {
				a = sw
			}
			if p := &a.node.Ports[a.addressPortNum(1)]; true {
				p.Address.LID, p.Address.SMLID = 5, 6
			}
			var before, m smp.PortInfo
			w.get(a, 1, smp.AttrPortInfo, port.num, &before)
			m = before
			m.Link.State, m.Link.PhysState = 0, 0
			c.set(&m)
			r := w.ask(a, 1, mad.MethodSet, smp.AttrPortInfo, port.num, 0, m.Append(nil))
			want := c.want
			if !port.has {
				want = ok
			}
			if r.Status() != want {
				t.Errorf("%s of %s: %v, want %v", c.what, port.name, r.Status(), want)
				continue
			}
			var response, after smp.PortInfo
			response.Decode(r.Data[:])
			w.get(a, 1, smp.AttrPortInfo, port.num, &after)
			if want == ok && port.has && !c.is(&response) {
				t.Errorf("%s of %s: response %+v", c.what, port.name, response)
			}
			if after.ClientReregister { // it is an order, not a state
				t.Errorf("%s of %s: ClientReregister stays", c.what, port.name)
			}
			if response.ClientReregister = false; want == ok && response != after {
				t.Errorf("%s of %s: response\n%+v, but then\n%+v", c.what, port.name, response, after)
			}
			if (want != ok || !port.has) && after != before {
				t.Errorf("%s of %s: changed to %+v", c.what, port.name, after)
			}
		}
	}
}

// TestLMC: a port with LMC n has 2^n LIDs, the first of which ends in n zeros (14.2.5.6, 4.1.3). A base
// port 0 has one.
func TestLMC(t *testing.T) {
	for _, c := range []struct {
		lid  uint16
		lmc  uint8
		port uint32
		want mad.Status
	}{
		{8, 3, 1, mad.StatusOK}, {9, 3, 1, mad.StatusInvalidField}, {0xbf80, 7, 1, mad.StatusOK},
		{0xbf81, 7, 1, mad.StatusInvalidField},
		{8, 0, 0, mad.StatusOK}, {8, 1, 0, mad.StatusInvalidField},
	} {
		w := newWorld(t)
		a, sw := w.line()
		if c.port == 0 {
			a = sw
		}
		var m smp.PortInfo
		w.get(a, 1, smp.AttrPortInfo, c.port, &m)
		m.LID, m.LMC, m.Link.State, m.Link.PhysState = c.lid, c.lmc, 0, 0
		r := w.ask(a, 1, mad.MethodSet, smp.AttrPortInfo, c.port, 0, m.Append(nil))
		if r.Status() != c.want {
			t.Errorf("LID %#x, LMC %d at port %d: %v, want %v", c.lid, c.lmc, c.port, r.Status(), c.want)
		}
	}
}

// TestExtendedSpeeds: a manager that knows them says so in the modifier's top bit; for others they stay
// as they are (14.2.5.6, SMSupportExtendedSpeeds).
func TestExtendedSpeeds(t *testing.T) {
	const knows = 1 << 31
	for _, c := range []struct {
		modifier uint32
		set      uint8
		want     mad.Status
		is       uint8
	}{
		{knows, 0, mad.StatusOK, 3}, {knows, 1, mad.StatusOK, 1}, {knows, smp.SpeedExtNone, mad.StatusOK, 0},
		{knows, smp.SpeedExtAll, mad.StatusOK, 3},
		{knows, 4, mad.StatusInvalidField, 3}, {knows, 16, mad.StatusInvalidField, 3}, {0, 1, mad.StatusOK, 3},
		{0, 16, mad.StatusOK, 3},
	} {
		w := newWorld(t)
		ca, _ := w.line()
		var m smp.PortInfo
		w.get(ca, 1, smp.AttrPortInfo, knows, &m)
		// 25 Gb/s a lane are active; the old field has the fastest of its own.
		if m.Link.SpeedExtActive != 2 || m.Link.SpeedActive != 4 || m.Link.SpeedExtSupported != 3 ||
			m.CapMask&smp.CapExtendedSpeeds == 0 {
			t.Fatalf("link %+v, capabilities %#x", m.Link, m.CapMask)
		}
		m.Link.SpeedExtEnabled, m.Link.State, m.Link.PhysState = c.set, 0, 0
		r := w.ask(ca, 1, mad.MethodSet, smp.AttrPortInfo, c.modifier, 0, m.Append(nil))
		w.get(ca, 1, smp.AttrPortInfo, knows, &m)
		if r.Status() != c.want || m.Link.SpeedExtEnabled != c.is || m.Link.SpeedEnabled != 7 {
			t.Errorf("modifier %#x, %d: %v, enabled %d and %d, want %v, %d", c.modifier, c.set, r.Status(),
				m.Link.SpeedExtEnabled, m.Link.SpeedEnabled, c.want, c.is)
		}
	}
}

// TestViolationCounters: a Set with 0 clears them, other values leave them (14.2.5.6).
func TestViolationCounters(t *testing.T) {
	w := newWorld(t)
	ca, _ := w.line()
	p := &ca.node.Ports[1]
	p.Authority.Violations, p.Partition.PViolations, p.Partition.QViolations = 1, 2, 3
	var m smp.PortInfo
	w.get(ca, 1, smp.AttrPortInfo, 0, &m)
	if v := m.Violations; v.MKey != 1 || v.PKey != 2 || v.QKey != 3 {
		t.Errorf("counters %+v", v)
	}
	m.Link.State, m.Link.PhysState = 0, 0
	m.Violations.MKey, m.Violations.PKey, m.Violations.QKey = 9, 0, 9
	if w.set(ca, 1, smp.AttrPortInfo, 0, &m); m.Violations.MKey != 1 || m.Violations.PKey != 0 ||
		m.Violations.QKey != 3 {
		t.Errorf("counters %+v", m.Violations)
	}
	if !p.Address.Reregister {
		m.Link.State, m.Link.PhysState, m.ClientReregister = 0, 0, true
		w.set(ca, 1, smp.AttrPortInfo, 0, &m)
	}
	if !p.Address.Reregister {
		t.Error("nobody is told to register again")
	}
}

// TestPortZero: a switch's base port 0 is always active.
func TestPortZero(t *testing.T) {
	w := newWorld(t)
	_, sw := w.line()
	var m smp.PortInfo
	w.get(sw, 1, smp.AttrPortInfo, 0, &m)
	if m.Link.State != uint8(node.Active) || m.LocalPort != 1 {
		t.Errorf("port 0 is in state %d; request came in at %d", m.Link.State, m.LocalPort)
	}
	for state, want := range map[node.LinkState]mad.Status{node.NoChange: mad.StatusOK, node.Active: mad.StatusOK,
		node.Down: mad.StatusInvalidField, node.Armed: mad.StatusInvalidField} {
		m.Link.State = uint8(state)
		if r := w.ask(sw, 1, mad.MethodSet, smp.AttrPortInfo, 0, 0, m.Append(nil)); r.Status() != want {
			t.Errorf("port 0 set to %v: %v, want %v", state, r.Status(), want)
		}
	}
}
