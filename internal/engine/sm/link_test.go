// SPDX-License-Identifier: Apache-2.0

package sm

import (
	"testing"
	"time"

	"github.com/ramjet-rdma/ramjet/internal/base/clock"
	"github.com/ramjet-rdma/ramjet/internal/engine/link"
	"github.com/ramjet-rdma/ramjet/internal/engine/node"
	"github.com/ramjet-rdma/ramjet/internal/engine/sma"
	"github.com/ramjet-rdma/ramjet/wire/ib"
)

// onLink is an agent as the link layer wants it.
type onLink struct{ *sma.Agent }

func (a onLink) HandleSMP(now clock.Time, in int, r link.Route, smp []byte) link.Verdict {
	return link.Verdict(a.Agent.HandleSMP(now, in, sma.Route(r), smp))
}

// fabricNet is a subnet on the link layer: the manager's packets go through ports, lanes and buffers
// there.
type fabricNet struct {
	t    testing.TB
	net  *link.Net
	now  clock.Time
	at   *link.Node
	port int
	m    *Manager
}

// onNet copies a subnet of the tests to the link layer. Its manager sits at an adapter.
func onNet(s *subnet, at *testNode, c Config) *fabricNet {
	f := &fabricNet{t: s.t, net: link.New(link.Config{}), now: 1, port: 1}
	nodes := map[*testNode]*link.Node{}
	for _, b := range s.nodes {
		for p := range b.node.Ports {
			b.node.Ports[p].Drop()
		}
		if b.node.Type == node.Switch {
			b.node.Ports[0].Link.Logical, b.node.Ports[0].Link.Physical = node.Active, node.PhysLinkUp
		}
		b.agent = sma.New(b.node)
		nodes[b] = f.net.Add(b.node, onLink{b.agent})
	}
	for _, b := range s.nodes {
		for p, e := range b.peers {
			if e.node != nil && (b.node.GUID < e.node.node.GUID || b == e.node && p < e.port) {
				if _, err := f.net.Plug(f.now, nodes[b].Port(p), nodes[e.node].Port(e.port), 0); err != nil {
					s.t.Fatal(err)
				}
			}
		}
	}
	f.at = nodes[at]
	c.PortGUID = at.node.Ports[1].GUID
	f.m = New(c)
	f.net.AttachManager(f.at, f.m.Accepts)
	f.m.Start(f.now)
	return f
}

// run moves packets between the manager and the network until done.
func (f *fabricNet) run(limit time.Duration, done func() bool) bool {
	var d Datagram
	held := false // d was not taken by its lane
	end := f.now + clock.Time(limit)
	for f.now < end {
		busy := false
		for held || f.m.Next(f.now, &d) {
			to := link.Datagram{SLID: f.at.State().Ports[f.port].Address.LID, DLID: d.LID, SL: d.SL, Source: d.QPN,
				Dest: d.Peer, PKey: d.PKey}
			if d.LID == node.PermissiveLID {
				to.SLID = node.PermissiveLID
			}
			if d.QPN == ib.QP1 {
				to.QKey = ib.QKeyGSI
			}
			if held = !f.net.SendMAD(f.now, f.at.Port(f.port), to, d.MAD[:]); held {
				break
			}
			d, busy = Datagram{}, true
		}
		for f.net.Run(f.now, 10_000) {
			busy = true
		}
		for p := f.net.ReceiveMAD(f.at); p != nil; p = f.net.ReceiveMAD(f.at) {
			busy = true
			from, b, ok := link.ReadMAD(p)
			if ok {
				in := Datagram{QPN: from.Dest, LID: from.SLID, Peer: from.Source, SL: from.SL, PKey: from.PKey}
				copy(in.MAD[:], b)
				f.m.HandleMAD(f.now, &in)
			}
			f.net.Release(p)
		}
		if done() {
			return true
		}
		if busy {
			continue
		}
		next := earlier(f.m.Deadline(), f.net.Deadline())
		if next == 0 {
			return false
		}
		f.now = max(f.now+1, next)
		f.m.HandleTimeout(f.now)
	}
	return false
}

// The manager brings up a tree on the link layer.
func TestOnLink(t *testing.T) {
	for _, k := range []int{4, 8} {
		s := newSubnet(t)
		all, _, _, _ := s.fatTree(k)
		f := onNet(s, all[0], Config{})
		if !f.run(time.Minute, func() bool { return f.m.Counters.Sweeps > 1 && !f.m.Busy() }) {
			t.Fatalf("not up: %v, phase %d, %d under way, %+v", f.m.State(), f.m.phase, f.m.requests.inFlight,
				f.m.Counters)
		}
		s.check(&testManager{m: f.m, node: all[0], port: 1})
		if f.m.Counters.Timeouts != 0 {
			t.Errorf("%d requests were not answered", f.m.Counters.Timeouts)
		}
	}
}

// BenchmarkBringUpOnLink is as BenchmarkBringUp, with the link layer.
func BenchmarkBringUpOnLink(b *testing.B) {
	for b.Loop() {
		b.StopTimer()
		s := newSubnet(b)
		all, _, _, _ := s.fatTree(16)
		f := onNet(s, all[0], Config{})
		b.StartTimer()
		if !f.run(time.Minute, func() bool { return f.m.Counters.Sweeps > 1 && !f.m.Busy() }) {
			b.Fatal(f.m.Counters)
		}
	}
}
