// SPDX-License-Identifier: Apache-2.0

package link

import (
	"testing"

	"github.com/ramjet-rdma/ramjet/internal/base/clock"
	"github.com/ramjet-rdma/ramjet/internal/engine/node"
	"github.com/ramjet-rdma/ramjet/wire/ib"
)

// pair is two adapters on a switch.
func pair(t *testing.T, cfg Config) (f *fabric, sw *Node, a, b *Port) {
	f = newFabric(t, cfg)
	sw, as := f.star(2, 0)
	return f, sw, as[0], as[1]
}

// send sends one packet and lets it come as far as it comes.
func (f *fabric) send(from *Port, p *Packet) {
	f.tb.Helper()
	if !f.net.Send(f.now, from, p) {
		f.tb.Fatal("no room")
	}
	f.run(f.now + 10_000)
}

// came returns how many packets have come to a port.
func (f *fabric) came(to *Port) (n int) {
	for p := f.net.Receive(to); p != nil; p = f.net.Receive(to) {
		f.net.Release(p)
		n++
	}
	return n
}

// TestDrops: packets that a switch or an adapter does not take are dropped, and counted in the right place.
func TestDrops(t *testing.T) {
	for _, c := range []struct {
		name  string
		set   func(sw *Node, a, b *Port)
		edit  func(p *Packet)
		where func(sw *Node, a, b *Port) *uint64
	}{
		{name: "nothing wrong"},
		{name: "no route", set: func(sw *Node, a, b *Port) { sw.State().Tables.Linear[2] = node.NoRoute },
			where: func(sw *Node, a, b *Port) *uint64 { return &sw.Port(1).State().Counters.RcvSwitchRelayErrors }},
		{name: "LID above the top", set: func(sw *Node, a, b *Port) { sw.State().Tables.Top = 1 },
			where: func(sw *Node, a, b *Port) *uint64 { return &sw.Port(1).State().Counters.RcvSwitchRelayErrors }},
		{name: "back where it came from", set: func(sw *Node, a, b *Port) { sw.State().Tables.Linear[2] = 1 },
			where: func(sw *Node, a, b *Port) *uint64 { return &sw.Port(1).State().Counters.RcvSwitchRelayErrors }},
		{name: "to a port that is not there", set: func(sw *Node, a, b *Port) { sw.State().Tables.Linear[2] = 99 },
			where: func(sw *Node, a, b *Port) *uint64 { return &sw.Port(1).State().Counters.RcvSwitchRelayErrors }},
		{name: "another adapter's LID", set: func(sw *Node, a, b *Port) { b.State().Address.LID = 9 },
			where: func(sw *Node, a, b *Port) *uint64 { return &b.State().Counters.RcvErrors }},
		{name: "output port not active", set: func(sw *Node, a,
			b *Port) {
			sw.Port(2).State().Link.Logical = node.Armed
		},
			where: func(sw *Node, a, b *Port) *uint64 { return &sw.Port(2).State().Counters.XmitDiscards }},
		{name: "service level without a lane",
			set:   func(sw *Node, a, b *Port) { sw.Port(2).State().Lanes.SLtoVL[1][0] = 15 },
			where: func(sw *Node, a, b *Port) *uint64 { return &sw.Port(2).State().Counters.XmitDiscards }},
		{name: "lane that is not operational",
			set:   func(sw *Node, a, b *Port) { sw.Port(2).State().Lanes.SLtoVL[1][0] = 8 },
			where: func(sw *Node, a, b *Port) *uint64 { return &sw.Port(2).State().Counters.XmitDiscards }},
		{name: "too long for the neighbor", set: func(sw *Node, a, b *Port) { sw.Port(2).State().MTU.Neighbor = 1 },
			where: func(sw *Node, a, b *Port) *uint64 { return &sw.Port(2).State().Counters.XmitDiscards }},
		{name: "sender's service level without a lane",
			set:   func(sw *Node, a, b *Port) { a.State().Lanes.SLtoVL[0][0] = 15 },
			where: func(sw *Node, a, b *Port) *uint64 { return &a.State().Counters.XmitDiscards }},
		{name: "wrong length", edit: func(p *Packet) { p.bytes[5]++ },
			where: func(sw *Node, a, b *Port) *uint64 { return &a.State().Counters.XmitDiscards }},
		{name: "P_Key not admitted in", set: func(sw *Node, a, b *Port) {
			sw.Port(1).State().Partition.EnforceIn = true
			sw.Port(1).State().Partition.PKeys[0] = 0x8001
		}, where: func(sw *Node, a, b *Port) *uint64 { return &sw.Port(1).State().Counters.RcvConstraint }},
		{name: "P_Key not admitted out", set: func(sw *Node, a, b *Port) {
			sw.Port(2).State().Partition.EnforceOut = true
			sw.Port(2).State().Partition.PKeys[0] = 0x8001
		}, where: func(sw *Node, a, b *Port) *uint64 { return &sw.Port(2).State().Counters.XmitConstraint }},
		{name: "both limited members", set: func(sw *Node, a, b *Port) {
			sw.Port(2).State().Partition.EnforceOut = true
			sw.Port(2).State().Partition.PKeys[0] = 0x7fff
		}, edit: func(p *Packet) { p.bytes[10], p.bytes[11] = 0x7f, 0xff },
			where: func(sw *Node, a, b *Port) *uint64 { return &sw.Port(2).State().Counters.XmitConstraint }},
		{name: "limited member to full", set: func(sw *Node, a, b *Port) {
			sw.Port(1).State().Partition.EnforceIn = true
			sw.Port(2).State().Partition.EnforceOut = true
		}, edit: func(p *Packet) { p.bytes[10], p.bytes[11] = 0x7f, 0xff }},
	} {
		f, sw, a, b := pair(t, Config{})
		if c.set != nil {
			c.set(sw, a, b)
		}
		p := f.packet(a, 2, 0, 1024, 0)
		if c.edit != nil {
			c.edit(p)
		}
		f.send(a, p)
		want := 1
		if c.where != nil {
			want = 0
			if n := *c.where(sw, a, b); n != 1 {
				t.Errorf("%s: counted %d", c.name, n)
			}
		}
		if n := f.came(b); n != want {
			t.Errorf("%s: %d came, want %d", c.name, n, want)
		}
		if c.name == "output port not active" {
			continue // nothing waits there
		}
		sw.Port(2).State().Link.Logical = node.Active
		checkIdle(t, append(ports(sw), a, b))
	}
}

// TestHeadOfQueueLife: packets to an adapter that takes nothing wait for their lifetime and are
// discarded; packets to other adapters then come.
func TestHeadOfQueueLife(t *testing.T) {
	f := newFabric(t, Config{Paced: true})
	sw, as := f.star(3, 10)
	sw.Port(2).State().Lanes.HOQLife = 5 // 131 µs
	blocked := &sender{from: as[0], dlid: 2, size: 2048, max: 100}
	start := f.now
	f.drive(start+100_000, []*sender{blocked}, nil, as)
	before := sw.Port(2).State().Counters.XmitDiscards
	other := &sender{from: as[0], dlid: 3, size: 2048, max: 10}
	got := newSink(as[2])
	f.drive(start+100*ms, []*sender{blocked, other}, []*sink{got}, as)
	after := sw.Port(2).State().Counters.XmitDiscards
	if before != 0 || after == 0 {
		t.Errorf("%d discarded before the lifetime, %d after", before, after)
	}
	if n := got.got(1, 0); n != 10 {
		t.Errorf("%d of 10 packets behind the blocked ones came", n)
	}
	if n := uint64(f.came(as[1])); n+after != blocked.sent {
		t.Errorf("%d taken, %d discarded, %d sent", n, after, blocked.sent)
	}
	f.run(f.now + ms)
	checkIdle(t, append(ports(sw), as...))
}

// TestStall: after as many discards as VLStallCount says a lane discards everything for a while, then
// sends again.
func TestStall(t *testing.T) {
	f := newFabric(t, Config{Paced: true})
	sw, as := f.star(2, 10)
	l := &sw.Port(2).State().Lanes
	l.HOQLife, l.Stall = 5, 2
	f.drive(f.now+10*ms, []*sender{{from: as[0], dlid: 2, size: 2048, max: 100}}, nil, as)
	c := &sw.Port(2).State().Counters
	held := uint64(as[1].arrivals.n)
	if c.XmitDiscards != 100-held {
		t.Errorf("%d discarded, want all but %d", c.XmitDiscards, held)
	}
	f.came(as[1])
	f.run(f.now + 10*ms)
	f.send(as[0], f.packet(as[0], 2, 0, 64, 0))
	if f.came(as[1]) != 1 {
		t.Error("the lane does not send again")
	}
}

// TestSwitchLife: a packet that has been in a switch for longer than LifeTimeValue says is discarded, at
// the head of the queue or not.
func TestSwitchLife(t *testing.T) {
	f := newFabric(t, Config{Paced: true})
	sw, as := f.star(2, 10)
	sw.State().Tables.LifeTime = 4 // 65 µs
	f.drive(f.now+200_000, []*sender{{from: as[0], dlid: 2, size: 2048, max: 60}}, nil, as)
	held := uint64(as[1].arrivals.n)
	if d := sw.Port(2).State().Counters.XmitDiscards; held == 0 || held+d != 60 {
		t.Errorf("%d arrived, %d discarded of 60", held, d)
	}
}

// TestStates goes through the states of a port (section 7.2.7).
func TestStates(t *testing.T) {
	f := newFabric(t, Config{})
	a, b := f.adapter(1, nil), f.adapter(2, nil)
	for _, p := range []*Port{a, b} {
		if s := p.State().Link.Logical; s != node.Down {
			t.Fatalf("without a cable the state is %v", s)
		}
	}
	c := f.plug(a, b, 0)
	state := func(wantA, wantB node.LinkState) {
		t.Helper()
		f.run(f.now + 2*downDelay)
		if sa, sb := a.State().Link.Logical, b.State().Link.Logical; sa != wantA || sb != wantB {
			t.Fatalf("states are %v and %v, want %v and %v", sa, sb, wantA, wantB)
		}
	}
	try := func(want int) {
		t.Helper()
		f.send(a, f.packet(a, 2, 0, 64, 0))
		if n := f.came(b); n != want {
			t.Fatalf("%v to %v: %d came, want %d", a.State().Link.Logical, b.State().Link.Logical, n, want)
		}
	}
	set := func(p *Port, s node.LinkState) {
		p.State().Link.Logical = s
		p.node.state.Changed(1)
	}
	state(node.Initialize, node.Initialize)
	if l := a.State().Link; l.WidthActive != node.Width4x || l.SpeedActive != node.EDR ||
		l.Physical != node.PhysLinkUp {
		t.Errorf("link is %v %v %v", l.WidthActive, l.SpeedActive, l.Physical)
	}
	try(0)
	set(a, node.Armed)
	try(0)
	set(a, node.Active)
	try(0) // not taken in Initialize
	if n := b.State().Counters.RcvErrors; n != 1 {
		t.Errorf("in Initialize: %d packets counted as not taken", n)
	}
	for range 100 { // several buffers full: dropped packets cost no credits
		f.send(a, f.packet(a, 2, 0, 4096, 0))
	}
	f.came(b)
	checkIdle(t, []*Port{a, b})
	set(b, node.Armed)
	state(node.Active, node.Armed)
	try(1)
	state(node.Active, node.Active) // by the packet
	set(b, node.Down)
	state(node.Initialize, node.Initialize) // it trains again
	if n := a.State().Counters.LinkDowned; n != 1 {
		t.Errorf("LinkDowned is %d", n)
	}
	b.State().Link.Physical = node.PhysDisabled
	b.node.state.Changed(1)
	state(node.Down, node.Down)
	if p := a.State().Link.Physical; p != node.PhysPolling {
		t.Errorf("at the other end of a disabled port: %v", p)
	}
	b.State().Link.Physical = node.PhysPolling
	b.node.state.Changed(1)
	state(node.Initialize, node.Initialize)
	b.State().Link.SpeedEnabled = node.FDR
	set(b, node.Down)
	state(node.Initialize, node.Initialize)
	if s := a.State().Link.SpeedActive; s != node.FDR {
		t.Errorf("speed is %v", s)
	}
	b.State().Link.SpeedEnabled = node.NDR // a does not have it
	set(b, node.Down)
	state(node.Down, node.Down)
	f.net.Pull(f.now, c)
	b.State().Link.SpeedEnabled = node.EDR
	state(node.Down, node.Down)
	c = f.plug(a, b, 0)
	state(node.Initialize, node.Initialize)
	f.net.Power(f.now, b.Node(), false)
	state(node.Down, node.Down)
	f.net.Power(f.now, b.Node(), true)
	state(node.Initialize, node.Initialize)
	f.net.Remove(f.now, b.Node())
	state(node.Down, node.Down)
	if a.Cable() != nil {
		t.Error("the cable of a removed node is still there")
	}
	f.net.Pull(f.now, c) // is out already
}

// TestChangesSeen: a switch keeps that the link of a port has changed, and tells its agent.
func TestChangesSeen(t *testing.T) {
	f := newFabric(t, Config{})
	agent := &fakeAgent{}
	sw := f.switchNode(9, 2, agent)
	agent.nd = sw
	a := f.adapter(1, nil)
	c := f.plug(a, sw.Port(2), 0)
	if !sw.State().Tables.Changed || len(agent.changes) != 1 || agent.changes[0] != 2 {
		t.Errorf("plugged: changed %v, told of %v", sw.State().Tables.Changed, agent.changes)
	}
	sw.State().Tables.Changed = false
	f.buf = f.net.Woken(f.buf[:0])
	f.net.Pull(f.now, c)
	if !sw.State().Tables.Changed || len(agent.changes) != 2 {
		t.Errorf("pulled: changed %v, told of %v", sw.State().Tables.Changed, agent.changes)
	}
	f.buf = f.net.Woken(f.buf[:0])
	for _, p := range []*Port{a, sw.Port(2)} {
		seen := false
		for _, w := range f.buf {
			seen = seen || w == Wake{p, Changed}
		}
		if !seen {
			t.Errorf("port %d: not woken: %+v", p.num, f.buf)
		}
	}
}

// TestOneChangeIsDue: a change at a single port has the network run at once.
func TestOneChangeIsDue(t *testing.T) {
	f, _, a, _ := pair(t, Config{})
	f.run(f.now + ms)
	if due := f.net.Deadline(); due != 0 {
		t.Fatalf("an idle network is due at %d", due)
	}
	a.State().Link.Physical = node.PhysDisabled
	a.node.state.Changed(1)
	if due := f.net.Deadline(); due == 0 || due > f.now {
		t.Errorf("a changed port is due at %d, now is %d", due, f.now)
	}
}

func TestPlugErrors(t *testing.T) {
	f := newFabric(t, Config{})
	sw, a, b := f.switchNode(9, 2, nil), f.adapter(1, nil), f.adapter(2, nil)
	f.plug(a, sw.Port(1), 0)
	for _, c := range []struct {
		p, q  *Port
		delay clock.Time
	}{{a, b, 0}, {b, a, 0}, {b, b, 0}, {b, sw.Port(0), 0}, {b, sw.Port(2), -1}} {
		if _, err := f.net.Plug(0, c.p, c.q, c.delay); err == nil {
			t.Errorf("%v: no error", c)
		}
	}
	if err := f.net.RemoteUp(0, a, node.Width4x, node.EDR); err == nil {
		t.Error("RemoteUp on a port with a cable: no error")
	}
	if err := f.net.RemoteUp(0, b, node.Width12x, node.EDR); err == nil {
		t.Error("RemoteUp without a common width: no error")
	}
	if f.net.Alloc(ib.MaxPacket+1) != nil {
		t.Error("Alloc of more than a packet can have")
	}
}

// TestLoopback: packets of an adapter to its own LID come to itself, and wait there as from others.
func TestLoopback(t *testing.T) {
	for _, cfg := range []Config{{}, {Paced: true}} {
		f := newFabric(t, cfg)
		sw, as := f.star(2, 0)
		as[0].State().Address.LMC = 1
		as[0].State().Address.LID = 4
		own := &sender{from: as[0], dlid: 5, size: 4096, max: 200}
		out := &sender{from: as[0], dlid: 2, size: 4096, max: 200}
		s, s2 := newSink(as[0]), newSink(as[1])
		f.drive(f.now+ms, []*sender{own, out}, []*sink{s, s2}, as)
		if s.got(4, 0) != 200 || s2.got(4, 0) != 200 {
			t.Errorf("%d and %d of 200 came", s.got(4, 0), s2.got(4, 0))
		}
		if n := as[0].State().Counters.XmitPkts; n != 200 {
			t.Errorf("%d packets on the link", n)
		}
		checkIdle(t, append(ports(sw), as...))
	}
}

// TestHoldCredits: a port that withholds its credits stops its senders, and nothing is lost.
func TestHoldCredits(t *testing.T) {
	for _, delay := range []clock.Time{0, 100} {
		f := newFabric(t, Config{Paced: true})
		sw, as := f.star(2, delay)
		s, got := &sender{from: as[0], dlid: 2, size: 2048, max: 500}, newSink(as[1])
		f.net.HoldCredits(f.now, as[1], 0, true)
		f.drive(f.now+ms, []*sender{s}, []*sink{got}, as)
		if n := got.got(1, 0); n == 0 || n > 40 {
			t.Errorf("delay %d: %d packets came, want a buffer full", delay, n)
		}
		f.net.HoldCredits(f.now, as[1], 0, false)
		f.drive(f.now+ms, []*sender{s}, []*sink{got}, as)
		if n := got.got(1, 0); n != 500 {
			t.Errorf("delay %d: %d of 500 packets came", delay, n)
		}
		checkIdle(t, append(ports(sw), as...))
	}
}
