// SPDX-License-Identifier: Apache-2.0

package sma

import (
	"testing"

	"github.com/ramjet-rdma/ramjet/internal/base/clock"
	"github.com/ramjet-rdma/ramjet/internal/engine/node"
	"github.com/ramjet-rdma/ramjet/wire/ib"
	"github.com/ramjet-rdma/ramjet/wire/mad"
	"github.com/ramjet-rdma/ramjet/wire/mad/smp"
)

// trap is a trap that an agent has sent.
type trap struct {
	port   int
	packet smp.SMP
	notice mad.Notice
}

// traps drains an agent.
func (w *world) traps(a *Agent) (all []trap) {
	w.t.Helper()
	var b [mad.Size]byte
	for {
		port, dlid, sl, ok := a.NextTrap(w.now, b[:])
		if !ok {
			return all
		}
		x := trap{port: port}
		x.packet.Decode(b[:])
		x.notice.Decode(x.packet.Data[:])
		if dlid != 1 || sl != 3 || x.packet.Method != mad.MethodTrap || x.packet.Attribute != mad.AttrNotice ||
			x.packet.Class != mad.ClassSubnet || x.packet.MKey != 0 {
			w.t.Fatalf("trap to LID %d, SL %d: %+v", dlid, sl, x.packet.Header)
		}
		if all = append(all, x); len(all) > 100 {
			w.t.Fatal("traps do not end")
		}
	}
}

// one returns the one trap that an agent has to send.
func (w *world) one(a *Agent) trap {
	w.t.Helper()
	all := w.traps(a)
	if len(all) != 1 {
		w.t.Fatalf("%d traps, want 1: %+v", len(all), all)
	}
	return all[0]
}

// repress has a manager repress a trap that came from a port.
func (w *world) repress(a *Agent, in int, tid uint64) {
	w.t.Helper()
	p := smp.New(mad.MethodTrapRepress, mad.AttrNotice, 0, tid)
	if v := a.HandleSMP(w.now, in, Route{SLID: 1, DLID: 2, Port: in}, p.Append(nil)); v != Drop && v != Deliver {
		w.t.Fatalf("TrapRepress: verdict %d", v)
	}
}

// A manager sends traps, too, and gets the packets that repress them.
func TestRepressOfOthers(t *testing.T) {
	w := newWorld(t)
	p := smp.New(mad.MethodTrapRepress, mad.AttrNotice, 0, 77)
	ca, _ := w.line()
	if v := ca.HandleSMP(w.now, 1, Route{SLID: 1, DLID: 2, Port: 1}, p.Append(nil)); v != Deliver {
		t.Errorf("verdict %d, want Deliver", v)
	}
}

// TestTrapRepress: a trap is sent at once, then each SubnetTimeout until a manager represses it by its
// transaction id (13.4.9, 14.2.5.1).
func TestTrapRepress(t *testing.T) {
	w := newWorld(t)
	_, sw := w.line()
	p := &sw.node.Ports[0]
	if sw.Deadline() != 0 {
		t.Error("something is due at first")
	}
	// Before a manager has come no trap is sent; PortStateChange remembers.
	sw.LinkChanged(w.now, 2)
	if managed(p, 5); sw.Deadline() != 0 || !sw.node.Tables.Changed {
		t.Errorf("due at %d, PortStateChange %v", sw.Deadline(), sw.node.Tables.Changed)
	}

	p.Address.SubnetTimeout = 18 // 1.07 s
	const timeout = 4096 << 18
	sw.LinkChanged(w.now, 2)
	if sw.Deadline() != w.now {
		t.Fatalf("due at %d, now is %d", sw.Deadline(), w.now)
	}
	first := w.one(sw)
	var d mad.LinkStateDetails
	if d.Decode(&first.notice.Details); first.port != 0 || first.notice.Trap != mad.TrapLinkState ||
		!first.notice.Generic ||
		first.notice.Producer != mad.ProducerSwitch || first.notice.Issuer != 5 || d.LID != 5 {
		t.Errorf("notice %+v about LID %d", first.notice, d.LID)
	}
	if sw.Deadline() != w.now+timeout || w.traps(sw) != nil {
		t.Errorf("due again at %d", sw.Deadline())
	}
	// Until a manager represses it...
	for range 3 {
		if w.now += timeout - 1; w.traps(sw) != nil {
			t.Fatal("sent again before SubnetTimeout")
		}
		if w.now++; w.one(sw) != first {
			t.Fatal("sent again, but not the same")
		}
	}
	// ...this one, and no other.
	if w.repress(sw, 1, first.packet.TID+1); sw.Deadline() == 0 {
		t.Error("another transaction id repressed it")
	}
	if w.repress(sw, 1, first.packet.TID); sw.Deadline() != 0 {
		t.Error("it is not repressed")
	}

	// A change while a trap is in flight raises the next trap, which an old repress does not silence.
	sw.LinkChanged(w.now, 2)
	first = w.one(sw)
	sw.LinkChanged(w.now, 3)
	w.repress(sw, 1, first.packet.TID)
	if w.now += timeout; w.one(sw).packet.TID == first.packet.TID {
		t.Error("the second change has the transaction id of the first")
	}
}

// TestLinkChangedAtAdapter: only switches have trap 128.
func TestLinkChangedAtAdapter(t *testing.T) {
	w := newWorld(t)
	ca, sw := w.line()
	managed(&ca.node.Ports[1], 7)
	managed(&sw.node.Ports[0], 8)
	ca.LinkChanged(w.now, 1)
	sw.LinkChanged(w.now, 0)
	if ca.Deadline() != 0 || sw.Deadline() != 0 {
		t.Error("there are traps")
	}
}

// TestTrapNeedsLink: a trap waits while its port cannot send.
func TestTrapNeedsLink(t *testing.T) {
	w := newWorld(t)
	ca, _ := w.line()
	p := &ca.node.Ports[1]
	managed(p, 7)
	ca.LocalChanged(w.now, 1, 0)
	p.Drop()
	if ca.Deadline() != 0 || w.traps(ca) != nil {
		t.Error("a trap left by a port that is down")
	}
	p.Up(node.Width4x, node.EDR)
	if ca.Deadline() != w.now || len(w.traps(ca)) != 1 {
		t.Error("it did not leave when the port was up")
	}
}

// TestTraps has the other traps and their details (14.2.5.1).
func TestTraps(t *testing.T) {
	w := newWorld(t)
	ca, sw := w.line()
	p := &ca.node.Ports[1]
	managed(p, 7)
	managed(&sw.node.Ports[0], 8)

	// 144: the capability mask has changed, or something else has.
	p.CapMask = uint32(smp.CapSM)
	ca.LocalChanged(w.now, 1, mad.ChangedDescription)
	n := w.one(ca).notice
	var local mad.LocalChangesDetails
	if local.Decode(&n.Details); n.Trap != mad.TrapLocalChanges || local.LID != 7 || !local.Other ||
		local.Changes != mad.ChangedDescription ||
		smp.CapMask(local.CapMask)&(smp.CapSM|smp.CapTrap) != smp.CapSM|smp.CapTrap || n.Producer != mad.ProducerCA {
		t.Errorf("%+v: %+v", n, local)
	}
	var info smp.PortInfo
	if w.get(ca, 1, smp.AttrPortInfo, 0, &info); uint32(info.CapMask) != local.CapMask {
		t.Errorf("PortInfo has capabilities %#x, the trap %#x", info.CapMask, local.CapMask)
	}
	ca.ports[1].traps = nil

	// 129 to 131: of a switch, port 0 tells of each port.
	for _, x := range []mad.Trap{mad.TrapLinkIntegrity, mad.TrapBufferOverrun, mad.TrapFlowControl} {
		sw.ThresholdReached(w.now, 3, x)
		n := w.one(sw).notice
		var d mad.PortDetails
		if d.Decode(&n.Details); n.Trap != x || d.LID != 8 || d.Port != 3 {
			t.Errorf("%+v: %+v", n, d)
		}
	}
	sw.ThresholdReached(w.now, 4, mad.TrapLinkIntegrity) // not the same as port 3's
	if w.one(sw); len(sw.ports[0].traps) != 4 {
		t.Errorf("%d traps are pending, want 4", len(sw.ports[0].traps))
	}
	sw.ports[0].traps = nil

	// 257 and 258: they are counted, too.
	bad := mad.KeyDetails{LID1: 1, LID2: 7, Key: 0x8123, SL: 2, QP1: 3, QP2: 4, GID1: ib.GID{15: 1},
		GID2: ib.GID{15: 2}}
	for _, x := range []mad.Trap{mad.TrapPKey, mad.TrapQKey} {
		ca.KeyViolated(w.now, 1, x, bad)
		n := w.one(ca).notice
		var d mad.KeyDetails
		if d.Decode(x, &n.Details); n.Trap != x || d != bad || n.Type != mad.NoticeSecurity {
			t.Errorf("%+v: %+v", n, d)
		}
		ca.ports[1].traps = nil
	}
	ca.KeyViolated(w.now, 1, mad.TrapQKey, bad)
	if p.Partition.PViolations != 1 || p.Partition.QViolations != 2 {
		t.Errorf("%d and %d violations are counted", p.Partition.PViolations, p.Partition.QViolations)
	}

	// 259: an external port of a switch has found one.
	sw.KeyViolated(w.now, 3, mad.TrapSwitchPKey, bad)
	n = w.one(sw).notice
	var d mad.KeyDetails
	if d.Decode(mad.TrapSwitchPKey, &n.Details); d.SwitchLID != 8 || d.Port != 3 || d.Valid&mad.ValidGID1 != 0 ||
		d.LID1 != 1 || d.Key != 0x8123 {
		t.Errorf("%+v: %+v", n, d)
	}
}

// TestMKeyTrap: 256 has the request that had a wrong key (14.2.4, 14.2.5.1).
func TestMKeyTrap(t *testing.T) {
	w := newWorld(t)
	_, sw := w.line()
	managed(&sw.node.Ports[0], 8)
	sw.node.Ports[0].Authority = node.Authority{MKey: 5, Protect: 2}
	w.ask(sw, 1, mad.MethodSet, smp.AttrPortInfo, 3, 4, nil)
	var d mad.MKeyDetails
	n := w.one(sw).notice
	if d.Decode(&n.Details); n.Trap != mad.TrapMKey ||
		d != (mad.MKeyDetails{LID: 8, Method: mad.MethodSet, Attribute: smp.AttrPortInfo, Modifier: 3, MKey: 4}) {
		t.Errorf("%+v: %+v", n, d)
	}
	// Along a directed route, the way back is in it, as far as there is room: 30 hops.
	p := smp.NewDirected(mad.MethodGet, smp.AttrNodeInfo, 0, 1, make([]uint8, 40))
	for i := range p.Return {
		p.Return[i] = uint8(i)
	}
	p.SetHops(40, 40)
	p.MKey = 6
	if v := sw.HandleSMP(w.now, 2, Route{Port: 2}, p.Append(nil)); v != Drop {
		t.Errorf("verdict %d", v)
	}
	w.now += 1000 * second
	n = w.one(sw).notice
	d.Decode(&n.Details)
	if !d.Directed || !d.Truncated || d.HopCount != 40 || d.Return[0] != 1 || d.Return[29] != 30 ||
		d.DrSLID != 0xffff || d.MKey != 6 {
		t.Errorf("directed: %+v", d)
	}
}

// TestTrapsAreBounded: a port keeps 16 traps, and sends them again and again.
func TestTrapsAreBounded(t *testing.T) {
	w := newWorld(t)
	sw := w.add(node.Switch, 0x20, 100)
	managed(&sw.node.Ports[0], 8)
	for port := 1; port <= 100; port++ {
		sw.ThresholdReached(w.now, port, mad.TrapLinkIntegrity)
	}
	for range 3 {
		if n := len(w.traps(sw)); n != maxTraps {
			t.Errorf("%d traps", n)
		}
		w.now += clock.Time(4096 << 18)
	}
	if _, _, _, ok := sw.NextTrap(w.now, make([]byte, mad.Size-1)); ok {
		t.Error("a trap in 255 bytes")
	}
}

// A port counts errors up to its thresholds, and raises traps at those. Of traps that each packet may raise there
// is one in a SubnetTimeout, however fast a manager represses them.
func TestFaults(t *testing.T) {
	w := newWorld(t)
	ca, _ := w.line()
	p := &ca.node.Ports[1]
	managed(p, 5)
	next := func() (n mad.Notice, tid uint64, ok bool) {
		var b [mad.Size]byte
		if _, _, _, ok = ca.NextTrap(w.now, b[:]); !ok {
			return n, 0, false
		}
		var m smp.SMP
		m.Decode(b[:])
		n.Decode(m.Data[:])
		return n, m.TID, true
	}
	for i := range defaultThreshold {
		ca.PhysicalError(w.now, 1)
		if _, _, ok := next(); ok {
			t.Fatalf("a trap after %d errors", i+1)
		}
	}
	ca.PhysicalError(w.now, 1)
	n, tid, ok := next()
	if !ok || n.Trap != mad.TrapLinkIntegrity || p.Counters.LocalIntegrity != 1 {
		t.Fatalf("%+v, %v, LocalLinkIntegrityErrors %d", n, ok, p.Counters.LocalIntegrity)
	}
	ca.repress(1, tid)
	for range 10 * (defaultThreshold + 1) {
		ca.PhysicalError(w.now, 1)
	}
	if n, _, ok := next(); ok || p.Counters.LocalIntegrity != 11 {
		t.Errorf("trap %d comes at once, LocalLinkIntegrityErrors %d", n.Trap, p.Counters.LocalIntegrity)
	}
	if d := ca.Deadline(); d <= w.now || d > w.now+2*second {
		t.Errorf("the next one is due at %v, it is %v", d, w.now)
	}
	w.now = ca.Deadline()
	if n, tid, ok = next(); !ok || n.Trap != mad.TrapLinkIntegrity {
		t.Errorf("%+v, %v", n, ok)
	}
	ca.repress(1, tid)
	w.now += 10 * second
	if _, _, ok := next(); ok || ca.Deadline() != 0 {
		t.Error("what was repressed is sent again")
	}

	// Overruns count by periods in a row.
	for range 1000 {
		ca.BufferOverrun(w.now, 1)
	}
	for range 3 {
		w.now += 10 * updatePeriod
		ca.BufferOverrun(w.now, 1)
	}
	if n, _, ok := next(); ok {
		t.Errorf("trap %d: the periods were not in a row", n.Trap)
	}
	for range defaultThreshold {
		w.now += updatePeriod
		ca.BufferOverrun(w.now, 1)
	}
	if n, _, ok := next(); !ok || n.Trap != mad.TrapBufferOverrun {
		t.Errorf("%+v, %v", n, ok)
	}
	ca.WatchdogExpired(w.now, 1)
	if n, _, ok := next(); !ok || n.Trap != mad.TrapFlowControl {
		t.Errorf("%+v, %v", n, ok)
	}
}
