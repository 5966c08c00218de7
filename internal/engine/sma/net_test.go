// SPDX-License-Identifier: Apache-2.0

package sma

import (
	"testing"

	"github.com/ramjet-rdma/ramjet/internal/base/clock"
	"github.com/ramjet-rdma/ramjet/internal/engine/link"
	"github.com/ramjet-rdma/ramjet/internal/engine/node"
	"github.com/ramjet-rdma/ramjet/wire/ib"
	"github.com/ramjet-rdma/ramjet/wire/mad"
	"github.com/ramjet-rdma/ramjet/wire/mad/pm"
	"github.com/ramjet-rdma/ramjet/wire/mad/smp"
)

// subnet is a network of links in virtual time, with a manager at port 1 of its first node.
type subnet struct {
	t     *testing.T
	net   *link.Net
	now   clock.Time
	home  *link.Node
	tid   uint64
	traps []mad.Notice
}

func newSubnet(t *testing.T) *subnet {
	return &subnet{t: t, net: link.New(link.Config{Paced: true}), now: 1}
}

func (s *subnet) add(kind node.Type, guid uint64, ports int) *link.Node {
	n := node.New(kind, guid, "node", ports, node.DefaultSpec)
	return s.net.Add(n, New(n))
}

// run lets time pass.
func (s *subnet) run(until clock.Time) {
	for {
		for s.net.Run(s.now, 1000) {
		}
		d := s.net.Deadline()
		if d == 0 || d > until {
			break
		}
		s.now = max(s.now, d)
	}
	s.now = until
}

// exchange sends the manager's packet and returns the response, nil: none came within a second. Traps that
// come are kept and repressed.
func (s *subnet) exchange(p *smp.SMP, dlid uint16) *smp.SMP {
	s.t.Helper()
	s.tid++
	p.TID = s.tid
	o := s.home.Port(1)
	slid := s.home.State().Ports[1].Address.LID
	if p.Directed() {
		slid = 0xffff
	}
	if !s.net.SendMAD(s.now, o, link.Datagram{SLID: slid, DLID: dlid, PKey: ib.DefaultPKey}, p.Append(nil)) {
		s.t.Fatal("not sent")
	}
	return s.await(s.tid)
}

func (s *subnet) await(tid uint64) (r *smp.SMP) {
	s.t.Helper()
	s.run(s.now + second/10)
	for x := s.net.ReceiveMAD(s.home); x != nil; x = s.net.ReceiveMAD(s.home) {
		d, b, _ := link.ReadMAD(x)
		var p smp.SMP
		p.Decode(b)
		s.net.Release(x)
		if p.Method == mad.MethodTrap {
			var n mad.Notice
			n.Decode(p.Data[:])
			s.traps = append(s.traps, n)
			p.Method = mad.MethodTrapRepress
			s.net.SendMAD(s.now, s.home.Port(1), link.Datagram{SLID: d.DLID, DLID: d.SLID, PKey: ib.DefaultPKey},
				p.Append(nil))
			s.run(s.now + second/10)
		} else if p.TID == tid {
			r = &p
		}
	}
	return r
}

func (s *subnet) get(a mad.Attribute, modifier uint32, m decoder, path ...uint8) {
	s.t.Helper()
	p := smp.NewDirected(mad.MethodGet, a, modifier, 0, path)
	s.done(s.exchange(&p, 0xffff), m)
}

func (s *subnet) set(a mad.Attribute, modifier uint32, m codec, path ...uint8) {
	s.t.Helper()
	p := smp.NewDirected(mad.MethodSet, a, modifier, 0, path)
	m.Append(p.Data[:0])
	s.done(s.exchange(&p, 0xffff), m)
}

func (s *subnet) done(r *smp.SMP, m decoder) {
	s.t.Helper()
	if r == nil || r.Method != mad.MethodGetResp || r.Status() != mad.StatusOK {
		s.t.Fatalf("response %+v", r)
	}
	m.Decode(r.Data[:])
}

// TestSubnet has a manager bring up two switches and two adapters over links: by directed routes, then by
// LIDs; a pulled cable raises a trap, and a port that is set down trains again.
func TestSubnet(t *testing.T) {
	s := newSubnet(t)
	s.home = s.add(node.CA, 0x10, 1)
	near, far, last := s.add(node.Switch, 0x20, 8), s.add(node.Switch, 0x30, 8), s.add(node.CA, 0x40, 2)
	s.net.AttachManager(s.home, func(b []byte) bool {
		class := mad.Class(b[1])
		return class.Subnet() || class == mad.ClassPerf
	})
	plug := func(a *link.Node, ap int, b *link.Node, bp int) *link.Cable {
		c, err := s.net.Plug(s.now, a.Port(ap), b.Port(bp), 5)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	plug(s.home, 1, near, 5)
	plug(near, 7, far, 2)
	plug(far, 3, last, 2)
	spare := plug(near, 8, far, 8)
	s.run(s.now + second)

	paths := [][]uint8{nil, {1}, {1, 7}, {1, 7, 3}}
	ends := []uint32{1, 0, 0, 2} // the port that has the LID
	for i, path := range paths {
		var n smp.NodeInfo
		s.get(smp.AttrNodeInfo, 0, &n, path...)
		if n.NodeGUID != uint64(0x10*(i+1)) {
			t.Fatalf("path %v leads to %#x", path, n.NodeGUID)
		}
		var p smp.PortInfo
		s.get(smp.AttrPortInfo, ends[i], &p, path...)
		p.LID, p.MasterSMLID, p.Link.State, p.Link.PhysState = uint16(i+1), 1, 0, 0
		s.set(smp.AttrPortInfo, ends[i], &p, path...)
	}
	table := func(ports ...uint8) (m smp.LinearTable) {
		for i := range m {
			m[i] = node.NoRoute
		}
		copy(m[1:], ports)
		return m
	}
	a, b := table(5, 0, 7, 7), table(2, 2, 0, 3)
	s.set(smp.AttrLinearTable, 0, &a, paths[1]...)
	s.set(smp.AttrLinearTable, 0, &b, paths[2]...)
	for _, path := range paths[1:3] {
		info := smp.SwitchInfo{LinearTop: 4, PrimaryMulticast: 255, NotPrimaryMulticast: 255, PortStateChange: true}
		if s.set(smp.AttrSwitchInfo, 0, &info, path...); info.PortStateChange {
			t.Error("PortStateChange stays")
		}
	}
	for _, state := range []node.LinkState{node.Armed, node.Active} {
		for _, x := range []struct {
			path []uint8
			port uint32
		}{{paths[3], 2}, {paths[2], 3}, {paths[2], 2}, {paths[1], 7}, {paths[1], 5}, {nil, 1}} {
			var p smp.PortInfo
			s.get(smp.AttrPortInfo, x.port, &p, x.path...)
			p.Link.State, p.Link.PhysState = uint8(state), 0
			if s.set(smp.AttrPortInfo, x.port, &p, x.path...); p.Link.State != uint8(state) {
				t.Errorf("port %d along %v is in state %d", x.port, x.path, p.Link.State)
			}
		}
	}
	// By LIDs.
	for lid := uint16(1); lid <= 4; lid++ {
		p := smp.New(mad.MethodGet, smp.AttrNodeInfo, 0, 0)
		var n smp.NodeInfo
		if s.done(s.exchange(&p, lid), &n); n.NodeGUID != uint64(0x10*lid) {
			t.Errorf("LID %d is %#x", lid, n.NodeGUID)
		}
	}
	// A route that begins with a part by LIDs.
	p := smp.NewDirected(mad.MethodGet, smp.AttrNodeInfo, 0, 0, []uint8{3})
	p.DrSLID = 1
	var n smp.NodeInfo
	if s.done(s.exchange(&p, 3), &n); n.NodeGUID != 0x40 {
		t.Errorf("from LID 3 by port 3 is %#x", n.NodeGUID)
	}
	if len(s.traps) != 0 {
		t.Errorf("traps %+v", s.traps)
	}
	// A cable is pulled: both switches tell, once each.
	s.net.Pull(s.now, spare)
	s.await(0)
	s.run(s.now + 10*second)
	s.await(0)
	if len(s.traps) != 2 || s.traps[0].Trap != mad.TrapLinkState || s.traps[0].Issuer+s.traps[1].Issuer != 5 {
		t.Errorf("traps %+v", s.traps)
	}
	// Set down, a link trains again.
	var port smp.PortInfo
	s.get(smp.AttrPortInfo, 3, &port, paths[2]...)
	port.Link.State, port.Link.PhysState = uint8(node.Down), 0
	s.set(smp.AttrPortInfo, 3, &port, paths[2]...)
	if s.get(smp.AttrPortInfo, 3, &port, paths[2]...); port.Link.State != uint8(node.Initialize) {
		t.Errorf("the port is in state %d", port.Link.State)
	}
	// Counters, through queue pair 1.
	h := mad.Header{BaseVersion: 1, Class: mad.ClassPerf, ClassVersion: 1, Method: mad.MethodGet,
		Attribute: pm.AttrPortCounters, TID: 99}
	d := make([]byte, mad.Size)
	h.Append(d[:0])
	(&pm.PortCounters{Port: 8}).Append(d[:pm.DataOffset])
	if !s.net.SendMAD(s.now, s.home.Port(1), link.Datagram{SLID: 1, DLID: 2, Source: ib.QP1, Dest: ib.QP1,
		QKey: ib.QKeyGSI, PKey: ib.DefaultPKey}, d) {
		t.Fatal("not sent")
	}
	s.run(s.now + second)
	x := s.net.ReceiveMAD(s.home)
	if x == nil {
		t.Fatal("no counters")
	}
	_, d, _ = link.ReadMAD(x)
	var c pm.PortCounters
	if c.Decode(d[pm.DataOffset:]); d[3] != uint8(mad.MethodGetResp) || c.LinkDowned != 1 {
		t.Errorf("counters %+v", c)
	}
	s.net.Release(x)
	_ = last
}
