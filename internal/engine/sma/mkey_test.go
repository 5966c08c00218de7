// SPDX-License-Identifier: Apache-2.0

package sma

import (
	"testing"

	"github.com/ramjet-rdma/ramjet/internal/engine/node"
	"github.com/ramjet-rdma/ramjet/wire/mad"
	"github.com/ramjet-rdma/ramjet/wire/mad/smp"
)

// TestProtection has the levels of section 14.2.4.1: the methods that a request with a wrong M_Key may use, and
// the M_Key that a Get of PortInfo shows it.
func TestProtection(t *testing.T) {
	const key, wrong = 0x1234, 0x4321
	for _, c := range []struct {
		key      uint64
		protect  uint8
		gets     bool
		shown    uint64 // to requests without it
		sets     bool
		violates uint16 // after a Get, a Set and a TrapRepress with a wrong key
	}{
		{key: 0, protect: 3, gets: true, shown: 0, sets: true, violates: 0}, // no M_Key: no checks
		{key: key, protect: 0, gets: true, shown: key, sets: false, violates: 2},
		{key: key, protect: 1, gets: true, shown: 0, sets: false, violates: 2},
		{key: key, protect: 2, gets: false, sets: false, violates: 3},
		{key: key, protect: 3, gets: false, sets: false, violates: 3},
	} {
		w := newWorld(t)
		ca, _ := w.line()
		k := &ca.node.Ports[1].Authority
		k.MKey, k.Protect = c.key, c.protect

		var m smp.PortInfo
		r := w.ask(ca, 1, mad.MethodGet, smp.AttrPortInfo, 0, wrong, nil)
		if (r != nil) != c.gets {
			t.Errorf("level %d, key %#x: Get with a wrong key answered: %v, want %v", c.protect, c.key, r != nil,
				c.gets)
		} else if r != nil {
			if w.got(r, &m); m.MKey != c.shown {
				t.Errorf("level %d: Get shows M_Key %#x, want %#x", c.protect, m.MKey, c.shown)
			}
		}
		// 14.2.4: a wrong key is answered with silence, not with a status.
		if r := w.ask(ca, 1, mad.MethodSet, smp.AttrPKeyTable, 0, wrong,
			(&smp.PKeyTable{0xffff, 1}).Append(nil)); (r != nil) != c.sets {
			t.Errorf("level %d: Set with a wrong key answered: %v, want %v", c.protect, r != nil, c.sets)
		}
		if got := ca.node.Ports[1].Partition.PKeys[1] == 1; got != c.sets {
			t.Errorf("level %d: Set with a wrong key carried out: %v, want %v", c.protect, got, c.sets)
		}
		repress := smp.New(mad.MethodTrapRepress, mad.AttrNotice, 0, 0)
		repress.MKey = wrong
		ca.HandleSMP(w.now, 1, Route{SLID: 1, DLID: 2, Port: 1}, repress.Append(nil))
		if k.Violations != c.violates {
			t.Errorf("level %d: %d violations, want %d", c.protect, k.Violations, c.violates)
		}
		// With the right key everything goes, and the key is shown.
		w.got(w.ask(ca, 1, mad.MethodGet, smp.AttrPortInfo, 0, c.key, nil), &m)
		if m.MKey != c.key || m.Violations.MKey != c.violates || m.Protect != c.protect {
			t.Errorf("level %d: PortInfo says %#x, %d violations, level %d", c.protect, m.MKey, m.Violations.MKey,
				m.Protect)
		}
		w.status(w.ask(ca, 1, mad.MethodSet, smp.AttrPKeyTable, 0, c.key, (&smp.PKeyTable{0xffff, 2}).Append(nil)),
			mad.StatusOK)
	}
}

// TestSwitchHasOneKey: a switch checks the M_Key of its port 0, wherever a packet comes in.
func TestSwitchHasOneKey(t *testing.T) {
	w := newWorld(t)
	_, sw := w.line()
	sw.node.Ports[0].Authority = node.Authority{MKey: 5, Protect: 2}
	if w.ask(sw, 1, mad.MethodGet, smp.AttrNodeInfo, 0, 4, nil) != nil {
		t.Error("a wrong key was answered at port 1")
	}
	w.status(w.ask(sw, 1, mad.MethodGet, smp.AttrNodeInfo, 0, 5, nil), mad.StatusOK)
	if n := sw.node.Ports[0].Authority.Violations; n != 1 {
		t.Errorf("%d violations at port 0, want 1", n)
	}
	// External ports have no key to show.
	var m smp.PortInfo
	if w.got(w.ask(sw, 1, mad.MethodGet, smp.AttrPortInfo, 1, 5, nil), &m); m.MKey != 0 || m.LID != 0 ||
		m.GIDPrefix != 0 {
		t.Errorf("an external port shows %+v", m)
	}
	// 14.2.4: packets without the key may pass through.
	p := smp.NewDirected(mad.MethodGet, smp.AttrNodeInfo, 0, 1, []uint8{1, 2})
	p.SetHops(1, 2)
	if v := sw.HandleSMP(w.now, 1, Route{Port: 1}, p.Append(nil)); v != Out(2) {
		t.Errorf("a packet on the way got verdict %d", v)
	}
}

// TestOtherPort: attributes that a manager may not read at an adapter's port it cannot read through another one.
func TestOtherPort(t *testing.T) {
	w := newWorld(t)
	ca := w.add(node.CA, 0x10, 2)
	k := &ca.node.Ports[2].Authority
	*k = node.Authority{MKey: 5, Protect: 1}
	var m smp.PortInfo
	if w.get(ca, 1, smp.AttrPortInfo, 2, &m); m.MKey != 0 || m.LocalPort != 1 {
		t.Errorf("port 1 tells M_Key %#x of port 2; request came in at %d", m.MKey, m.LocalPort)
	}
	if w.got(w.ask(ca, 1, mad.MethodGet, smp.AttrPortInfo, 2, 5, nil), &m); m.MKey != 5 {
		t.Errorf("M_Key %#x for who knows it", m.MKey)
	}
	k.Protect = 2
	w.status(w.ask(ca, 1, mad.MethodGet, smp.AttrPortInfo, 2, 4, nil), mad.StatusInvalidField)
	// A Set is for the port that it comes in at.
	w.status(w.ask(ca, 1, mad.MethodSet, smp.AttrPortInfo, 2, 5, m.Append(nil)), mad.StatusInvalidField)
	w.status(w.ask(ca, 1, mad.MethodGet, smp.AttrPortInfo, 3, 0, nil), mad.StatusInvalidField)
}

// TestLease: section 14.2.4.2.
func TestLease(t *testing.T) {
	w := newWorld(t)
	ca, _ := w.line()
	k := &ca.node.Ports[1].Authority
	read := func(key uint64) *smp.SMP { return w.ask(ca, 1, mad.MethodGet, smp.AttrPortInfo, 0, key, nil) }

	// The lease begins to run with a violation, not before.
	*k = node.Authority{MKey: 5, Protect: 2, Lease: 10}
	w.now += 100 * second
	if read(4) != nil {
		t.Fatal("protection ended without a violation")
	}
	// A request with the right key ends it.
	w.now += 9 * second
	if read(4) != nil {
		t.Fatal("protection ended after 9 s of 10")
	}
	w.status(read(5), mad.StatusOK)
	w.now += 2 * second
	if read(4) != nil || k.Protect != 2 {
		t.Fatal("protection ended although the manager is there")
	}
	// Further violations do not make it longer.
	w.now += 9 * second
	if read(4) != nil {
		t.Fatal("protection ended after 9 s of the second lease")
	}
	// When it is over, the protection bits are 0: everybody reads the key...
	w.now += second
	var m smp.PortInfo
	if w.got(read(4), &m); m.MKey != 5 || m.Protect != 0 {
		t.Fatalf("after the lease PortInfo shows M_Key %#x at level %d", m.MKey, m.Protect)
	}
	// ...but needs it to set anything.
	m.MKey = 6
	if w.ask(ca, 1, mad.MethodSet, smp.AttrPortInfo, 0, 4, m.Append(nil)) != nil {
		t.Error("a wrong key sets after the lease")
	}
	m.LID, m.MasterSMLID, m.Link.State, m.Link.PhysState = 7, 1, 0, 0
	w.status(w.ask(ca, 1, mad.MethodSet, smp.AttrPortInfo, 0, 5, m.Append(nil)), mad.StatusOK)
	if k.MKey != 6 {
		t.Errorf("M_Key is %#x", k.MKey)
	}
	// A lease period of 0 never ends.
	*k = node.Authority{MKey: 5, Protect: 1, Lease: 0}
	w.ask(ca, 1, mad.MethodSet, smp.AttrPortInfo, 0, 4, nil)
	w.now += 1_000_000 * second
	if w.got(read(4), &m); m.MKey != 0 || k.Protect != 1 {
		t.Error("a lease without a period ended")
	}
	// Violations are counted up to the counter's end.
	k.Violations = 0xfffe
	for range 3 {
		w.ask(ca, 1, mad.MethodSet, smp.AttrPortInfo, 0, 4, nil)
	}
	if k.Violations != 0xffff {
		t.Errorf("%d violations", k.Violations)
	}
}
