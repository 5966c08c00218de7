// SPDX-License-Identifier: Apache-2.0

package sm

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/ramjet-rdma/ramjet/internal/base/clock"
	"github.com/ramjet-rdma/ramjet/internal/engine/node"
	"github.com/ramjet-rdma/ramjet/internal/engine/routing"
	"github.com/ramjet-rdma/ramjet/internal/engine/sma"
	"github.com/ramjet-rdma/ramjet/wire/ib"
	"github.com/ramjet-rdma/ramjet/wire/mad"
	"github.com/ramjet-rdma/ramjet/wire/mad/sa"
	"github.com/ramjet-rdma/ramjet/wire/mad/smp"
)

// subnet is a set of nodes with agents and cables, and managers at some of them. It carries only management packets,
// hop by hop, in virtual time.
type subnet struct {
	t        testing.TB
	now      clock.Time
	nodes    []*testNode
	managers []*testManager
	rng      *rand.Rand
	loss     float64 // of each hop
	sent     int     // hops of all packets
	// inbox has the datagrams to queue pair 1 of adapters without a manager.
	inbox map[*testNode][]Datagram
	// tamper may change a packet that a manager sends; false drops it.
	tamper func(m *testManager, d *Datagram) bool
	// forge may change packets that are delivered to a manager by a directed route.
	forge func(b []byte)
}

// testNode is a node of the subnet.
type testNode struct {
	node    *node.Node
	agent   *sma.Agent
	peers   []testPort // by port
	dead    bool       // does not answer, and forwards nothing
	manager *testManager
}

// testPort is a port of a node.
type testPort struct {
	node *testNode
	port int
}

// testManager is a manager and its port; at a switch, port 0.
type testManager struct {
	m      *Manager
	node   *testNode
	port   int
	off    bool
	events []Event
}

func newSubnet(t testing.TB) *subnet {
	return &subnet{t: t, now: 1, rng: rand.New(rand.NewPCG(1, 1)), inbox: make(map[*testNode][]Datagram)}
}

func (s *subnet) add(kind node.Type, ports int) *testNode {
	guid := uint64(0x1000_0000+len(s.nodes)) << 16
	b := &testNode{node: node.New(kind, guid, "", ports, node.DefaultSpec), peers: make([]testPort, ports+1)}
	b.agent = sma.New(b.node)
	s.nodes = append(s.nodes, b)
	return b
}

func (s *subnet) addSwitch(ports int) *testNode { return s.add(node.Switch, ports) }

func (s *subnet) addAdapter() *testNode { return s.add(node.CA, 1) }

// free returns the first port without a cable.
func (b *testNode) free(t testing.TB) int {
	for p := 1; p < len(b.peers); p++ {
		if b.peers[p].node == nil {
			return p
		}
	}
	t.Fatal("no free port")
	return 0
}

// cable connects two nodes at their first free ports.
func (s *subnet) cable(a, b *testNode) testPort {
	ap := a.free(s.t)
	a.peers[ap] = testPort{a, ap}
	bp := b.free(s.t)
	s.plug(testPort{a, ap}, testPort{b, bp})
	return testPort{a, ap}
}

func (s *subnet) plug(a, b testPort) {
	a.node.peers[a.port], b.node.peers[b.port] = b, a
	x, y := &a.node.node.Ports[a.port], &b.node.node.Ports[b.port]
	w, v := node.Negotiate(x, y)
	x.Up(w, v)
	y.Up(w, v)
	a.node.agent.LinkChanged(s.now, a.port)
	b.node.agent.LinkChanged(s.now, b.port)
}

func (s *subnet) unplug(a testPort) {
	b := a.node.peers[a.port]
	a.node.peers[a.port], b.node.peers[b.port] = testPort{}, testPort{}
	a.node.node.Ports[a.port].Drop()
	b.node.node.Ports[b.port].Drop()
	a.node.agent.LinkChanged(s.now, a.port)
	b.node.agent.LinkChanged(s.now, b.port)
}

// kill takes a node away with all its cables.
func (s *subnet) kill(b *testNode) {
	for p := range b.peers {
		if b.peers[p].node != nil {
			s.unplug(testPort{b, p})
		}
	}
	b.dead = true
}

// manage puts a manager at a node.
func (s *subnet) manage(b *testNode, c Config) *testManager {
	port := 1
	if b.node.Type == node.Switch {
		port = 0
	}
	p := &b.node.Ports[port]
	p.CapMask |= uint32(smp.CapSM)
	c.PortGUID = p.GUID
	c.TIDBase = s.rng.Uint32()
	mgr := &testManager{m: New(c), node: b, port: port}
	b.manager = mgr
	s.managers = append(s.managers, mgr)
	mgr.m.Start(s.now)
	return mgr
}

// stop ends a manager.
func (s *subnet) stop(mgr *testManager) {
	mgr.off = true
	mgr.node.node.Ports[mgr.port].CapMask &^= uint32(smp.CapSM)
}

func (s *subnet) lost() bool { return s.loss > 0 && s.rng.Float64() < s.loss }

// send carries a datagram of a node's own.
func (s *subnet) send(b *testNode, port int, d *Datagram) {
	buf := d.MAD
	if d.QPN == ib.QP0 {
		if d.LID == node.PermissiveLID {
			s.directed(b, 0, port, buf[:])
			return
		}
		s.byLID(b, port, d, true)
		return
	}
	s.byLID(b, port, d, false)
}

// directed carries a packet along its directed route.
func (s *subnet) directed(b *testNode, in, at int, buf []byte) {
	for range 200 {
		if b.dead {
			return
		}
		v := b.agent.HandleSMP(s.now, in, sma.Route{Directed: true, Port: at, SLID: node.PermissiveLID,
			DLID: node.PermissiveLID}, buf)
		if v == sma.Deliver {
			if b.manager != nil && !b.manager.off {
				d := Datagram{LID: node.PermissiveLID}
				copy(d.MAD[:], buf)
				if s.forge != nil {
					s.forge(d.MAD[:])
				}
				b.manager.m.HandleMAD(s.now, &d)
			}
			return
		}
		next := testPort{}
		if v > 0 {
			next = b.peers[v]
		}
		if next.node == nil || s.lost() {
			return
		}
		s.sent++
		b, in, at = next.node, next.port, next.port
	}
	s.t.Fatal("a directed route does not end")
}

// byLID carries a packet along the forwarding tables. Data goes only over active links.
func (s *subnet) byLID(b *testNode, port int, d *Datagram, management bool) {
	from := b.node.Ports[port].Address.LID
	at, in := b, 0
	if b.node.Ports[port].Address.LID != d.LID {
		out := port
		if b.node.Type == node.Switch {
			out = int(b.node.Tables.Linear[d.LID])
		}
		for hop := 0; ; hop++ {
			if hop > 100 {
				s.t.Fatalf("a packet to LID %d goes in circles", d.LID)
			}
			if out == node.NoRoute || out >= len(at.peers) || at.dead || s.lost() {
				return
			}
			next := at.peers[out]
			if next.node == nil || !management && at.node.Ports[out].Link.Logical != node.Active {
				return
			}
			s.sent++
			at, in = next.node, next.port
			if at.node.Type != node.Switch {
				if at.node.Ports[in].Address.LID != d.LID {
					return
				}
				break
			}
			if at.node.Ports[0].Address.LID == d.LID {
				break
			}
			out = int(at.node.Tables.Linear[d.LID])
		}
	}
	if at.dead {
		return
	}
	arrived := *d
	arrived.LID = from
	if management {
		p := 0
		if at.node.Type != node.Switch {
			p = max(in, 1)
		}
		v := at.agent.HandleSMP(s.now, p, sma.Route{SLID: from, DLID: d.LID, Port: p}, arrived.MAD[:])
		switch {
		case v == sma.Deliver && at.manager != nil && !at.manager.off:
			at.manager.m.HandleMAD(s.now, &arrived)
		case v == sma.Reply:
			s.byLID(at, p, &Datagram{MAD: arrived.MAD, LID: from}, true)
		}
		return
	}
	if at.manager != nil && !at.manager.off && (at.manager.port == 0 || at.manager.port == in || in == 0) &&
		!response1(&arrived) {
		at.manager.m.HandleMAD(s.now, &arrived)
		return
	}
	s.inbox[at] = append(s.inbox[at], arrived)
}

// response1 reports whether a datagram to queue pair 1 is a client's and not the administrator's.
func response1(d *Datagram) bool {
	var h sa.Header
	h.Decode(d.MAD[:])
	if h.RMPP.Flags&sa.RMPPActive != 0 {
		return h.RMPP.Type == sa.RMPPData || h.RMPP.Type == sa.RMPPAbort && h.RMPP.Status == sa.RMPPTooManyRetries
	}
	return h.Method.Answers() && h.Method != mad.MethodReportResp || h.Method == mad.MethodReport
}

// step carries all there is, and says whether there was anything.
func (s *subnet) step() (busy bool) {
	for _, mgr := range s.managers {
		if mgr.off {
			continue
		}
		var d Datagram
		for range 256 {
			d = Datagram{}
			if !mgr.m.Next(s.now, &d) {
				break
			}
			busy = true
			if s.tamper == nil || s.tamper(mgr, &d) {
				s.send(mgr.node, mgr.port, &d)
			}
		}
		for {
			e, ok := mgr.m.NextEvent()
			if !ok {
				break
			}
			mgr.events = append(mgr.events, e)
		}
	}
	for _, b := range s.nodes {
		if d := b.agent.Deadline(); d == 0 || d > s.now || b.dead {
			continue
		}
		var d Datagram
		port, lid, sl, ok := b.agent.NextTrap(s.now, d.MAD[:])
		if ok {
			busy = true
			d.LID, d.SL = lid, sl
			s.byLID(b, port, &d, true)
		}
	}
	return busy
}

// run carries packets and lets time pass, until done says so or a time is over.
func (s *subnet) run(limit time.Duration, done func() bool) bool {
	end := s.now + clock.Time(limit)
	late := 0
	for {
		for n := 0; s.step(); n++ {
			if n > 10_000 {
				s.t.Fatal("packets without end")
			}
		}
		if done != nil && done() {
			return true
		}
		if s.step() {
			continue // the packets that done has sent
		}
		next := clock.Time(0)
		for _, mgr := range s.managers {
			if !mgr.off {
				next = earlier(next, mgr.m.Deadline())
			}
		}
		for _, b := range s.nodes {
			if !b.dead {
				next = earlier(next, b.agent.Deadline())
			}
		}
		if next == 0 || next > end {
			s.now = end
			return done == nil
		}
		if next <= s.now {
			if late++; late > 1000 {
				s.t.Fatalf("what is due at %d is still due at %d", next, s.now)
			}
		}
		s.now = max(s.now+1, next)
		for _, mgr := range s.managers {
			if d := mgr.m.Deadline(); !mgr.off && d != 0 && d <= s.now {
				mgr.m.HandleTimeout(s.now)
			}
		}
	}
}

// up runs until a manager has the subnet configured and nothing more to do.
func (s *subnet) up(mgr *testManager) {
	s.t.Helper()
	sweeps := mgr.m.Counters.Sweeps
	ok := s.run(5*time.Minute, func() bool {
		return mgr.m.Counters.Sweeps > sweeps && !mgr.m.Busy() && mgr.m.sweep.heavyAt == 0
	})
	if !ok {
		s.t.Fatalf("no complete sweep within 5 minutes: %v, phase %d, failures %d, %v", mgr.m.State(), mgr.m.phase,
			mgr.m.sweep.failures, mgr.events)
	}
}

// settle runs on until nothing is due for a while but light sweeps.
func (s *subnet) settle(mgr *testManager) {
	s.t.Helper()
	if !s.run(10*time.Minute, func() bool {
		return mgr.m.Counters.Sweeps > 0 && !mgr.m.Busy() && mgr.m.sweep.heavyAt == 0 && !s.trapsPending()
	}) {
		s.t.Fatalf("not settled: phase %d, failures %d, %v", mgr.m.phase, mgr.m.sweep.failures, mgr.events)
	}
}

func (s *subnet) trapsPending() bool {
	for _, b := range s.nodes {
		if b.agent.Deadline() != 0 && !b.dead {
			return true
		}
	}
	return false
}

// check looks at the nodes themselves, not at the manager's records of them: LIDs are unique, links
// are active at both ends with the same MTU and lanes, each LID is reached from each port by the tables
// in the switches, and these have no credit loop.
func (s *subnet) check(mgr *testManager) {
	s.t.Helper()
	alive := s.connected(mgr.node)
	lids := map[uint16]testPort{}
	index := map[*testNode]int32{}
	g := &routing.Graph{}
	top := 0
	for _, b := range alive {
		if b.node.Type == node.Switch {
			index[b] = int32(len(index))
			top = max(top, int(b.node.Tables.Top))
		}
	}
	for _, b := range alive {
		for p := range b.node.Ports {
			port := &b.node.Ports[p]
			if p > 0 && b.peers[p].node != nil && !b.peers[p].node.dead {
				peer := &b.peers[p].node.node.Ports[b.peers[p].port]
				switch {
				case port.Link.Logical != node.Active:
					s.t.Errorf("port %d of %x is %v", p, b.node.GUID, port.Link.Logical)
				case port.MTU.Neighbor != peer.MTU.Neighbor || port.Lanes.Operational != peer.Lanes.Operational:
					s.t.Errorf("port %d of %x and its peer differ: %v %v, %d and %d lanes", p, b.node.GUID, port.MTU,
						peer.MTU, port.Lanes.Operational, peer.Lanes.Operational)
				}
				for in, row := range port.Lanes.SLtoVL {
					for sl, vl := range row {
						if in != p && int(vl) != sl%int(port.Lanes.Operational) {
							s.t.Fatalf("port %d of %x: SL %d from port %d is on VL %d of %d", p, b.node.GUID, sl, in,
								vl, port.Lanes.Operational)
						}
					}
				}
			}
			if b.node.Type == node.Switch && p > 0 ||
				b.node.Type == node.CA && (p == 0 || b.peers[p].node == nil || b.peers[p].node.dead) {
				continue
			}
			a := &port.Address
			if other, taken := lids[a.LID]; taken || a.LID == 0 {
				s.t.Errorf("port %d of %x has LID %d, as %v", p, b.node.GUID, a.LID, other)
			}
			lids[a.LID] = testPort{b, p}
			if a.SMLID != mgr.m.LID() {
				s.t.Errorf("port %d of %x has the manager at LID %d, not %d", p, b.node.GUID, a.SMLID, mgr.m.LID())
			}
		}
	}
	if len(index) == 0 {
		return
	}
	g.Peers = make([][]routing.End, len(index))
	tables := make(routing.Tables, len(index))
	for b, i := range index {
		tables[i] = b.node.Tables.Linear[:top+1]
		g.Peers[i] = make([]routing.End, len(b.peers))
		for p, e := range b.peers {
			g.Peers[i][p] = routing.NoEnd
			if e.node != nil && e.node.node.Type == node.Switch && !e.node.dead {
				g.Peers[i][p] = routing.End{Switch: index[e.node], Port: uint8(e.port)}
			}
		}
	}
	for lid, e := range lids {
		at := routing.End{}
		if e.node.node.Type == node.Switch {
			at.Switch = index[e.node]
		} else {
			peer := e.node.peers[e.port]
			at = routing.End{Switch: index[peer.node], Port: uint8(peer.port)}
		}
		g.Endpoints = append(g.Endpoints, routing.Endpoint{LID: lid, At: at})
	}
	for i := range g.Peers {
		for _, e := range g.Endpoints {
			if !g.Walk(tables, int32(i), e, nil) {
				s.t.Fatalf("LID %d is not reached from switch %d", e.LID, i)
			}
		}
	}
	// Multicast as the switches have it.
	var trees [][]routing.PortSet
	for mlid := range 1024 {
		tree := make([]routing.PortSet, len(index))
		any := false
		for b, i := range index {
			tree[i] = b.node.Tables.Multicast[mlid]
			any = any || tree[i].Len() > 0
		}
		if any {
			trees = append(trees, tree)
		}
	}
	if loop := g.CreditLoop(tables, trees); loop != nil {
		s.t.Errorf("credit loop: %v", loop)
	}
}

// connected returns the living nodes that are connected to one.
func (s *subnet) connected(from *testNode) []*testNode {
	seen := map[*testNode]bool{from: true}
	all := []*testNode{from}
	for i := 0; i < len(all); i++ {
		if all[i].node.Type != node.Switch && i > 0 {
			continue
		}
		for _, e := range all[i].peers {
			if e.node != nil && !e.node.dead && !seen[e.node] {
				seen[e.node] = true
				all = append(all, e.node)
			}
		}
	}
	return all
}

// The topologies of the tests. Each returns the adapters; the manager sits at the first.

func (s *subnet) star(adapters int) []*testNode {
	sw := s.addSwitch(adapters)
	return s.hosts(sw, adapters)
}

func (s *subnet) hosts(sw *testNode, n int) []*testNode {
	var all []*testNode
	for range n {
		a := s.addAdapter()
		s.cable(a, sw)
		all = append(all, a)
	}
	return all
}

func (s *subnet) line(switches int, closed bool) (all []*testNode, sws []*testNode) {
	for i := range switches {
		sws = append(sws, s.addSwitch(8))
		if i > 0 {
			s.cable(sws[i-1], sws[i])
		}
	}
	if closed {
		s.cable(sws[switches-1], sws[0])
	}
	for _, sw := range sws {
		all = append(all, s.hosts(sw, 2)...)
	}
	return all, sws
}

func (s *subnet) mesh(w, h int) (all []*testNode) {
	sws := make([]*testNode, w*h)
	for i := range sws {
		sws[i] = s.addSwitch(6)
	}
	for y := range h {
		for x := range w {
			if x+1 < w {
				s.cable(sws[y*w+x], sws[y*w+x+1])
			}
			if y+1 < h {
				s.cable(sws[y*w+x], sws[(y+1)*w+x])
			}
		}
	}
	for _, sw := range sws {
		all = append(all, s.hosts(sw, 1)...)
	}
	return all
}

// fatTree is a three-level tree of switches with k ports, with k^3/4 adapters.
func (s *subnet) fatTree(k int) (all, edges, aggs, cores []*testNode) {
	h := k / 2
	for range h * h {
		cores = append(cores, s.addSwitch(k))
	}
	for range k {
		var pod []*testNode
		for j := range h {
			a := s.addSwitch(k)
			pod = append(pod, a)
			for i := range h {
				s.cable(a, cores[j*h+i])
			}
		}
		aggs = append(aggs, pod...)
		for range h {
			e := s.addSwitch(k)
			edges = append(edges, e)
			for _, a := range pod {
				s.cable(e, a)
			}
			all = append(all, s.hosts(e, h)...)
		}
	}
	return all, edges, aggs, cores
}

// agentOf returns a new agent for a node whose identity has changed.
func agentOf(b *testNode) *sma.Agent { return sma.New(b.node) }
