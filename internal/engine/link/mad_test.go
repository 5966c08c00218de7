// SPDX-License-Identifier: Apache-2.0

package link

import (
	"testing"

	"github.com/ramjet-rdma/ramjet/internal/base/clock"
	"github.com/ramjet-rdma/ramjet/internal/engine/node"
	"github.com/ramjet-rdma/ramjet/wire/ib"
)

// fakeAgent follows directed routes (section 14.2.2) and answers every request with the node's GUID.
type fakeAgent struct {
	nd      *Node
	changes []int
	due     clock.Time
}

const (
	hopPointer = 6
	hopCount   = 7
	madData    = 64
	initial    = 128
	returned   = 192
)

func (a *fakeAgent) answer(mad []byte) {
	mad[madMethod] |= responseBit
	for i := range 8 {
		mad[madData+i] = byte(a.nd.State().GUID >> (56 - 8*i))
	}
}

func (a *fakeAgent) HandleSMP(_ clock.Time, in int, r Route, smp []byte) Verdict {
	if !r.Directed {
		if smp[madMethod]&responseBit != 0 || smp[madMethod] == 5 {
			return Deliver
		}
		a.answer(smp)
		return Reply
	}
	hp, hc := &smp[hopPointer], smp[hopCount]
	if smp[madStatus]&directionBit != 0 {
		if *hp <= 1 {
			return Deliver
		}
		*hp--
		return Out(int(smp[returned+int(*hp)]))
	}
	if in > 0 {
		smp[returned+int(*hp)] = byte(in)
	}
	if *hp < hc {
		*hp++
		return Out(int(smp[initial+int(*hp)]))
	}
	smp[madStatus] |= directionBit
	a.answer(smp)
	if hc == 0 {
		return Deliver
	}
	return Out(in)
}

func (a *fakeAgent) HandleGMP(_ clock.Time, _ int, mad []byte) bool {
	if mad[madClass] != classPerf {
		return false
	}
	a.answer(mad)
	return true
}

func (a *fakeAgent) LinkChanged(_ clock.Time, port int) { a.changes = append(a.changes, port) }
func (a *fakeAgent) Deadline() clock.Time               { return a.due }

func (a *fakeAgent) NextTrap(_ clock.Time, smp []byte) (int, uint16, uint8, bool) {
	if a.due == 0 {
		return 0, 0, 0, false
	}
	a.due = 0
	smp[madClass], smp[madMethod] = classLID, 5
	return 0, 1, 0, true
}

const (
	classLID  = 0x01
	classAdm  = 0x03
	classPerf = 0x04
)

// managed is adapter LID 1 with a manager, two switches LIDs 0x101 and 0x102, and adapter LID 2, in a row.
func managed(t *testing.T) (f *fabric, a, b *Port, s1, s2 *Node) {
	f = newFabric(t, Config{Paced: true})
	agents := [4]*fakeAgent{{}, {}, {}, {}}
	a, b = f.adapter(1, agents[0]), f.adapter(2, agents[1])
	s1, s2 = f.switchNode(0x101, 3, agents[2]), f.switchNode(0x102, 3, agents[3])
	for i, nd := range []*Node{a.node, b.node, s1, s2} {
		agents[i].nd = nd
	}
	f.plug(a, s1.Port(1), 10)
	f.plug(s1.Port(3), s2.Port(2), 10)
	f.plug(s2.Port(1), b, 10)
	f.net.AttachManager(a.node, func(mad []byte) bool {
		return mad[madClass] == classDirected || mad[madClass] == classLID || mad[madClass] == classAdm
	})
	return f, a, b, s1, s2
}

func (f *fabric) routes(s1, s2 *Node) {
	for lid, out := range map[int][2]uint8{1: {1, 2}, 2: {3, 1}, 0x101: {0, 2}, 0x102: {3, 0}} {
		s1.State().Tables.Linear[lid], s2.State().Tables.Linear[lid] = out[0], out[1]
	}
}

// answer sends a datagram and returns the GUID in the answer; 0: none came.
func (f *fabric) ask(from *Port, d Datagram, mad []byte) (guid uint64) {
	f.tb.Helper()
	if !f.net.SendMAD(f.now, from, d, mad) {
		f.tb.Fatal("no room")
	}
	f.run(f.now + 100_000)
	p := f.net.ReceiveMAD(from.node)
	if p == nil {
		p = f.net.Receive(from)
	}
	if p == nil {
		return 0
	}
	defer f.net.Release(p)
	back, m, ok := ReadMAD(p)
	if !ok || m[madMethod]&responseBit == 0 || back.Dest != d.Source || p.Port() != from.num {
		f.tb.Errorf("answer is %+v, %x at port %d", back, m[:64], p.Port())
	}
	for i := range 8 {
		guid = guid<<8 | uint64(m[madData+i])
	}
	return guid
}

// TestDirectedRoutes: before any LID is assigned, a manager reaches every node by a path of ports.
func TestDirectedRoutes(t *testing.T) {
	f, a, b, s1, s2 := managed(t)
	for _, c := range []struct {
		path []byte
		want uint64
	}{
		{nil, a.node.State().GUID}, {[]byte{1}, s1.State().GUID}, {[]byte{1, 3}, s2.State().GUID},
		{[]byte{1, 3, 1}, b.node.State().GUID}, {[]byte{1, 2}, 0}, {[]byte{1, 200}, 0},
		{[]byte{1, 3, 2, 3}, s2.State().GUID}, {[]byte{1, 0}, 0},
	} {
		var smp [MADLen]byte
		smp[0], smp[madClass], smp[2], smp[madMethod] = 1, classDirected, 1, 1
		smp[hopCount] = byte(len(c.path))
		copy(smp[initial+1:], c.path)
		d := Datagram{SLID: node.PermissiveLID, DLID: node.PermissiveLID, PKey: ib.DefaultPKey}
		if got := f.ask(a, d, smp[:]); got != c.want {
			t.Errorf("path %v: node %#x answers, want %#x", c.path, got, c.want)
		}
	}
	checkIdle(t, append(ports(s1, s2), a, b))
}

// TestLIDRoutes: with LIDs, subnet and performance management go by them, and an administrator's
// datagrams come to its node.
func TestLIDRoutes(t *testing.T) {
	f, a, b, s1, s2 := managed(t)
	f.routes(s1, s2)
	for lid, guid := range map[uint16]uint64{1: a.node.State().GUID, 2: b.node.State().GUID, 0x101: s1.State().GUID,
		0x102: s2.State().GUID, 9: 0} {
		smp := [MADLen]byte{1, classLID, 1, 1}
		if got := f.ask(a, Datagram{SLID: 1, DLID: lid, PKey: ib.DefaultPKey}, smp[:]); got != guid {
			t.Errorf("LID %d, queue pair 0: node %#x answers, want %#x", lid, got, guid)
		}
	}
	activate(append(ports(s1, s2), a, b)...)
	f.run(f.now + 1000)
	perf := Datagram{SLID: 1, Source: 77, Dest: ib.QP1, PKey: ib.DefaultPKey, QKey: ib.QKeyGSI}
	for lid, guid := range map[uint16]uint64{1: a.node.State().GUID, 2: b.node.State().GUID, 0x101: s1.State().GUID,
		0x102: s2.State().GUID} {
		mad := [MADLen]byte{1, classPerf, 1, 1}
		perf.DLID = lid
		if got := f.ask(a, perf, mad[:]); got != guid {
			t.Errorf("LID %d, queue pair 1: node %#x answers, want %#x", lid, got, guid)
		}
	}
	// From adapter 2 to the administrator at 1, and of a class without a server to adapter 1.
	for _, class := range []byte{classAdm, 0x07} {
		mad := [MADLen]byte{1, class, 1, 1}
		f.net.SendMAD(f.now, b, Datagram{SLID: 2, DLID: 1, Source: 1, Dest: ib.QP1, PKey: ib.DefaultPKey,
			QKey: ib.QKeyGSI}, mad[:])
		f.run(f.now + 100_000)
		p, q := f.net.ReceiveMAD(a.node), f.net.Receive(a)
		if (p != nil) != (class == classAdm) || (q != nil) != (class != classAdm) {
			t.Errorf("class %d: manager %v, adapter %v", class, p != nil, q != nil)
		}
		for _, p := range []*Packet{p, q} {
			if p != nil {
				f.net.Release(p)
			}
		}
	}
	// A trap of a switch comes to the manager.
	s2.agent.(*fakeAgent).due = f.now + 500
	f.net.agentDue(s2)
	f.run(f.now + 100_000)
	p := f.net.ReceiveMAD(a.node)
	if p == nil {
		t.Fatal("no trap came")
	}
	if d, m, ok := ReadMAD(p); !ok || m[madMethod] != 5 || d.SLID != 0x102 {
		t.Errorf("trap is %+v", d)
	}
	f.net.Release(p)
	checkIdle(t, append(ports(s1, s2), a, b))
}

// TestAgentsCopy: a switch that is a member of a group answers a datagram to it in place. The other members get the
// datagram as it was sent.
func TestAgentsCopy(t *testing.T) {
	f := newFabric(t, Config{Paced: true})
	sw, as := f.star(3, 10)
	agent := &fakeAgent{nd: sw}
	sw.agent = agent
	sw.State().Tables.Multicast[0][0] = 1<<0 | 1<<2 | 1<<3
	sent := [MADLen]byte{1, classPerf, 1, 1}
	to := Datagram{SLID: 1, DLID: 0xc000, Source: 77, Dest: ib.QP1, PKey: ib.DefaultPKey, QKey: ib.QKeyGSI}
	if !f.net.SendMAD(f.now, as[0], to, sent[:]) {
		t.Fatal("no room")
	}
	f.run(f.now + 100_000)
	for _, a := range as[1:] {
		p := f.net.Receive(a)
		if p == nil {
			t.Fatal("a member got nothing")
		}
		if d, m, ok := ReadMAD(p); !ok || d.SLID != 1 || d.DLID != 0xc000 || [MADLen]byte(m) != sent {
			t.Errorf("a member got %+v, %x", d, m[:madData+8])
		}
		f.net.Release(p)
	}
	if n := f.came(as[0]); n != 2 { // its own copy, and the answer
		t.Errorf("the sender got %d packets, want its own and an answer", n)
	}
}

// TestManagementBounded: datagrams that flood a node are dropped and counted.
func TestManagementBounded(t *testing.T) {
	f, a, _, s1, s2 := managed(t)
	f.routes(s1, s2)
	smp := [MADLen]byte{1, classLID, 1, 0x81}
	for range 4 * maxDatagrams {
		if !f.net.SendMAD(f.now, a, Datagram{SLID: 1, DLID: 1, PKey: ib.DefaultPKey}, smp[:]) {
			t.Fatal("refused")
		}
	}
	if n := a.node.datagrams.n; n != maxDatagrams || a.State().Counters.VL15Dropped != 3*maxDatagrams {
		t.Errorf("%d wait, %d dropped", n, a.State().Counters.VL15Dropped)
	}
	for range 4 * maxDatagrams {
		f.net.SendMAD(f.now, a, Datagram{SLID: 1, DLID: 2, PKey: ib.DefaultPKey}, smp[:])
	}
	if n := a.out[managementLane].n; n > maxDatagrams {
		t.Errorf("%d wait to be sent", n)
	}
}
