// SPDX-License-Identifier: Apache-2.0

package sma

import (
	"testing"

	"github.com/ramjet-rdma/ramjet/internal/engine/node"
	"github.com/ramjet-rdma/ramjet/wire/mad"
	"github.com/ramjet-rdma/ramjet/wire/mad/smp"
)

// chain is an adapter, two switches and another adapter, three hops from the first one.
func chain(w *world) (ca, near, far, last *Agent) {
	ca, near, far, last = w.add(node.CA, 0x10, 2), w.add(node.Switch, 0x20, 8), w.add(node.Switch, 0x30, 8),
		w.add(node.CA, 0x40, 2)
	w.connect(ca, 1, near, 5)
	w.connect(near, 7, far, 2)
	w.connect(far, 3, last, 2)
	return ca, near, far, last
}

func TestDirectedRoute(t *testing.T) {
	w := newWorld(t)
	ca, near, far, _ := chain(w)
	for _, c := range []struct {
		path []uint8
		guid uint64
		port uint8 // that the request came in at
	}{
		{nil, 0x10, 1}, // no hops: the own node (C14-9, hop pointer and count 0)
		{[]uint8{1}, 0x20, 5},
		{[]uint8{1, 7}, 0x30, 2},
		{[]uint8{1, 7, 3}, 0x40, 2},
		{[]uint8{1, 5}, 0x10, 1}, // a route may return where it came from
	} {
		// 14.2.2: the packet leaves by the ports of the initial path, and notes in the return path where
		// it came in; the answer goes back along that, until the hop pointer is 0.
		r := w.directed(ca, mad.MethodGet, smp.AttrNodeInfo, 0, nil, c.path...)
		var m smp.NodeInfo
		w.got(r, &m)
		if m.NodeGUID != c.guid || m.LocalPort != c.port {
			t.Errorf("path %v leads to %#x at port %d, want %#x at %d", c.path, m.NodeGUID, m.LocalPort, c.guid, c.port)
		}
		if at, hops := r.Hops(); at != 0 || int(hops) != len(c.path) {
			t.Errorf("path %v ends with hop pointer %d of %d", c.path, at, hops)
		}
	}
	// 14.2.2: each hop's own port is in the return path.
	r := w.directed(ca, mad.MethodGet, smp.AttrNodeInfo, 0, nil, 1, 7, 3)
	if got := [3]uint8(r.Return[1:]); got != [3]uint8{5, 2, 2} {
		t.Errorf("return path %v", got)
	}
	// C14-9 (2): only switches pass packets on.
	if r := w.directed(ca, mad.MethodGet, smp.AttrNodeInfo, 0, nil, 1, 7, 3, 2); r != nil {
		t.Error("an adapter passed a packet on")
	}
	// C14-9: a port that the node does not have is not left by; nor is 0.
	for _, port := range []uint8{0, 9, 255} {
		if r := w.directed(ca, mad.MethodGet, smp.AttrNodeInfo, 0, nil, 1, port, 1); r != nil {
			t.Errorf("a switch of 8 ports sent by port %d", port)
		}
	}
	// An adapter's manager sends by its own port only.
	w.connect(ca, 2, far, 8)
	if r := w.directed(ca, mad.MethodGet, smp.AttrNodeInfo, 0, nil, 2); r != nil {
		t.Error("the manager at port 1 sent by port 2")
	}
	// A switch's own manager may send by any of its ports, and ask the switch itself.
	p := smp.NewDirected(mad.MethodGet, smp.AttrNodeInfo, 0, 1, []uint8{7, 3})
	var m smp.NodeInfo
	if to := w.send(near, 0, &p); to != near || !m.Decode(p.Data[:]) || m.NodeGUID != 0x40 {
		t.Errorf("a switch's manager reached %#x", m.NodeGUID)
	}
	p = smp.NewDirected(mad.MethodGet, smp.AttrNodeInfo, 0, 1, nil)
	if to := w.send(far, 0, &p); to != far || !m.Decode(p.Data[:]) || m.NodeGUID != 0x30 || m.LocalPort != 0 {
		t.Errorf("a switch's manager found %#x at port %d at home", m.NodeGUID, m.LocalPort)
	}
}

// TestHops has hop pointers, hop counts and directions as they come in at port 2 of a switch with 8 ports
// and of an adapter with 4, and the agents' verdicts (C14-9 and C14-13). The paths leave by port 4 and
// return by port 3.
func TestHops(t *testing.T) {
	const perm, lid = node.PermissiveLID, 9
	for _, c := range []struct {
		rule                string
		back                bool
		at, hops            uint8
		slid, dlid          uint16
		ofSwitch, ofAdapter Verdict
		fromManager         Verdict // the verdict of the switch, if its own manager has sent it
		wantAt              uint8   // the hop pointer after, where the switch does not drop it
	}{
		{rule: "C14-9 (1): the sender has not begun", at: 0, hops: 3, slid: perm, dlid: perm, ofSwitch: Drop,
			ofAdapter: Drop, fromManager: Out(4), wantAt: 1},
		{rule: "C14-9 (1): after a part by LIDs the route begins here", at: 0, hops: 3, slid: lid, dlid: perm,
			ofSwitch: Out(4), ofAdapter: Drop, fromManager: Out(4), wantAt: 1},
		{rule: "C14-9 (2): on the way", at: 1, hops: 3, slid: perm, dlid: perm, ofSwitch: Out(4), ofAdapter: Drop,
			fromManager: Drop, wantAt: 2},
		{rule: "C14-9 (2): one before the end", at: 2, hops: 3, slid: perm, dlid: perm, ofSwitch: Out(4),
			ofAdapter: Drop, fromManager: Drop, wantAt: 3},
		{rule: "C14-9 (3): the end; the answer leaves by where it came in", at: 3, hops: 3, slid: perm, dlid: perm,
			ofSwitch: Out(2), ofAdapter: Out(2), fromManager: Drop, wantAt: 3},
		{rule: "C14-9 (3): the end, and on by LIDs", at: 3, hops: 3, slid: perm, dlid: lid, ofSwitch: Reply,
			ofAdapter: Drop, fromManager: Drop, wantAt: 4},
		{rule: "C14-9 (4): behind the end", at: 4, hops: 3, slid: perm, dlid: perm, ofSwitch: Out(3), ofAdapter: Drop,
			fromManager: Out(3), wantAt: 3},
		{rule: "behind the end, by LIDs: not supported", at: 4, hops: 3, slid: perm, dlid: lid, ofSwitch: Drop,
			ofAdapter: Drop, fromManager: Drop},
		{rule: "C14-9 (5): beyond", at: 5, hops: 3, slid: perm, dlid: perm, ofSwitch: Drop, ofAdapter: Drop,
			fromManager: Drop},
		{rule: "C14-9 (5): far beyond", at: 255, hops: 3, slid: perm, dlid: perm, ofSwitch: Drop, ofAdapter: Drop,
			fromManager: Drop},
		{rule: "14.2.2: more than 63 hops", at: 1, hops: 64, slid: perm, dlid: perm, ofSwitch: Drop, ofAdapter: Drop,
			fromManager: Drop},
		{rule: "14.2.2: far more", at: 64, hops: 255, slid: perm, dlid: perm, ofSwitch: Drop, ofAdapter: Drop,
			fromManager: Drop},
		{rule: "no hops, from nowhere", at: 0, hops: 0, slid: perm, dlid: perm, ofSwitch: Drop, ofAdapter: Drop,
			fromManager: Deliver, wantAt: 0},
		{rule: "no hops, by LIDs", at: 0, hops: 0, slid: lid, dlid: perm, ofSwitch: Reply, ofAdapter: Reply,
			fromManager: Reply, wantAt: 0},

		{rule: "C14-13 (1): the responder has not begun", back: true, at: 4, hops: 3, slid: perm, dlid: perm,
			ofSwitch: Drop, ofAdapter: Drop, fromManager: Out(3), wantAt: 3},
		{rule: "the way back begins with a part by LIDs: not supported", back: true, at: 4, hops: 3, slid: perm,
			dlid: lid, ofSwitch: Drop, ofAdapter: Drop, fromManager: Out(3), wantAt: 3},
		{rule: "C14-13 (2): on the way back", back: true, at: 3, hops: 3, slid: perm, dlid: perm, ofSwitch: Out(3),
			ofAdapter: Drop, fromManager: Drop, wantAt: 2},
		{rule: "C14-13 (2): one before the end", back: true, at: 2, hops: 3, slid: perm, dlid: perm, ofSwitch: Out(3),
			ofAdapter: Drop, fromManager: Drop, wantAt: 1},
		{rule: "C14-13 (3): the end", back: true, at: 1, hops: 3, slid: perm, dlid: perm, ofSwitch: Deliver,
			ofAdapter: Deliver, fromManager: Drop, wantAt: 0},
		{rule: "C14-13 (3): the end, and on by LIDs", back: true, at: 1, hops: 3, slid: lid, dlid: perm,
			ofSwitch: Reply, ofAdapter: Drop, fromManager: Drop, wantAt: 0},
		{rule: "C14-13 (4): to the manager", back: true, at: 0, hops: 3, slid: lid, dlid: perm, ofSwitch: Deliver,
			ofAdapter: Deliver, fromManager: Deliver, wantAt: 0},
		{rule: "C14-13 (5): beyond", back: true, at: 5, hops: 3, slid: perm, dlid: perm, ofSwitch: Drop,
			ofAdapter: Drop, fromManager: Drop},
		{rule: "14.2.2: more than 63 hops back", back: true, at: 3, hops: 64, slid: perm, dlid: perm, ofSwitch: Drop,
			ofAdapter: Drop, fromManager: Drop},
	} {
		request := func() []byte {
			p := smp.NewDirected(mad.MethodGet, smp.AttrNodeInfo, 0, 1, nil)
			for i := range p.Initial {
				p.Initial[i], p.Return[i] = 4, 3
			}
			p.SetHops(c.at, c.hops)
			p.DrSLID, p.DrDLID = c.slid, c.dlid
			if c.back {
				p.Method = mad.MethodGetResp
				p.SetReturning()
			}
			return p.Append(nil)
		}
		w := newWorld(t)
		sw, ca := w.add(node.Switch, 0x20, 8), w.add(node.CA, 0x10, 4)
		b := request()
		if v := sw.HandleSMP(w.now, 2, Route{Port: 2}, b); v != c.ofSwitch {
			t.Errorf("%s: verdict of the switch %d, want %d", c.rule, v, c.ofSwitch)
		} else if v != Drop && b[6] != c.wantAt {
			t.Errorf("%s: hop pointer %d afterwards, want %d", c.rule, b[6], c.wantAt)
		}
		if v := ca.HandleSMP(w.now, 2, Route{Port: 2}, request()); v != c.ofAdapter {
			t.Errorf("%s: verdict of the adapter %d, want %d", c.rule, v, c.ofAdapter)
		}
		b = request()
		if v := sw.HandleSMP(w.now, 0, Route{}, b); v != c.fromManager {
			t.Errorf("%s: verdict on the own manager's packet %d, want %d", c.rule, v, c.fromManager)
		}
	}
}

// TestLIDPart: a route by LIDs to a switch, from there directed to an adapter, and back the same way
// (14.2.2: the directed part may be in the middle).
func TestLIDPart(t *testing.T) {
	w := newWorld(t)
	_, near, far, last := chain(w)
	p := smp.NewDirected(mad.MethodGet, smp.AttrNodeInfo, 0, 1, []uint8{7, 3})
	p.DrSLID = 33
	b := p.Append(nil)
	steps := []struct {
		a    *Agent
		in   int
		want Verdict
	}{{near, 5, Out(7)}, {far, 2, Out(3)}, {last, 2, Out(2)}, {far, 3, Out(2)}, {near, 7, Reply}}
	for i, s := range steps {
		if v := s.a.HandleSMP(w.now, s.in, Route{SLID: 33, DLID: 44}, b); v != s.want {
			t.Fatalf("step %d: verdict %d, want %d", i, v, s.want)
		}
	}
	var m smp.NodeInfo
	p.Decode(b)
	if m.Decode(p.Data[:]); p.DrSLID != 33 || m.NodeGUID != 0x40 || !p.Returning() {
		t.Errorf("LID %d is answered by %#x", p.DrSLID, m.NodeGUID)
	}
}

// TestRefusesShort: fewer than 256 bytes, and ports that there are not, are dropped.
func TestRefusesShort(t *testing.T) {
	w := newWorld(t)
	ca, sw := w.line()
	p := smp.NewDirected(mad.MethodGet, smp.AttrNodeInfo, 0, 1, nil)
	b := p.Append(nil)
	for n := range b {
		if v := sw.HandleSMP(w.now, 0, Route{}, b[:n:n]); v != Drop {
			t.Fatalf("%d bytes: verdict %d", n, v)
		}
	}
	for _, c := range []struct {
		a    *Agent
		in   int
		port int
	}{{sw, 5, 5}, {sw, -1, 0}, {ca, 0, 0}, {ca, 0, 2}, {ca, 2, 1}} {
		if v := c.a.HandleSMP(w.now, c.in, Route{Port: c.port}, b); v != Drop {
			t.Errorf("port %d, %d: verdict %d", c.in, c.port, v)
		}
	}
}
