// SPDX-License-Identifier: Apache-2.0

package sm

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/ramjet-rdma/ramjet/internal/engine/node"
	"github.com/ramjet-rdma/ramjet/wire/mad/smp"
)

func (s *testManager) saw(kind EventKind) bool {
	return slices.ContainsFunc(s.events, func(e Event) bool { return e.Kind == kind })
}

// Packets get lost on every hop, and are repeated.
func TestLoss(t *testing.T) {
	for seed := range uint64(10) {
		s := newSubnet(t)
		s.rng = rand.New(rand.NewPCG(seed, 7))
		all, _, _, _ := s.fatTree(4)
		mgr := s.manage(all[seed], Config{Retries: 8})
		s.loss = 0.02
		s.settle(mgr)
		s.loss = 0
		s.check(mgr)
		if mgr.m.Counters.Requests < 1200 {
			t.Errorf("seed %d: %d requests: nothing was repeated", seed, mgr.m.Counters.Requests)
		}
	}
}

// Cables and switches go at any time of a sweep, and come back. The rest of the subnet is configured each time.
func TestChanges(t *testing.T) {
	for seed := range uint64(40) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			s := newSubnet(t)
			s.rng = rand.New(rand.NewPCG(seed, 3))
			all, edges, aggs, cores := s.fatTree(4)
			mgr := s.manage(all[0], Config{})
			middle := slices.Concat(edges[1:], aggs, cores)
			when, lids := s.rng.IntN(1500), map[uint64]uint16{}
			packets := 0
			var cut []testPort // one end, and its peer
			s.tamper = func(*testManager, *Datagram) bool {
				if packets++; packets != when {
					return true
				}
				b := middle[s.rng.IntN(len(middle))]
				if s.rng.IntN(2) == 0 {
					s.kill(b)
					return true
				}
				for p := 1; p < len(b.peers); p++ {
					if b.peers[p].node != nil && b.peers[p].node.node.Type == node.Switch {
						cut = append(cut, testPort{b, p}, b.peers[p])
						s.unplug(cut[0])
						return true
					}
				}
				return true
			}
			s.settle(mgr)
			if packets < when { // it was all over before: once more, with the sweep that a change begins
				when = packets + 1 + s.rng.IntN(200)
				s.unplug(testPort{aggs[1], 1})
				s.settle(mgr)
			}
			s.run(time.Second, nil)
			s.settle(mgr)
			s.check(mgr)
			for _, b := range all {
				lids[b.node.GUID] = b.node.Ports[1].Address.LID
			}
			// The cable comes back, and LIDs stay.
			if cut != nil {
				s.plug(cut[0], cut[1])
				s.run(time.Second, nil)
				s.settle(mgr)
				s.check(mgr)
				for _, b := range all {
					if lid := b.node.Ports[1].Address.LID; lids[b.node.GUID] != 0 && lid != lids[b.node.GUID] {
						t.Errorf("LID %d has become %d", lids[b.node.GUID], lid)
					}
				}
			}
		})
	}
}

// A change without a trap is found by polling the switches, and without a change nothing is done.
func TestLightSweep(t *testing.T) {
	s := newSubnet(t)
	all, sws := s.line(4, true)
	mgr := s.manage(all[0], Config{})
	s.up(mgr)
	s.run(time.Second, nil)
	s.settle(mgr)
	sweeps, requests := mgr.m.Counters.Sweeps, mgr.m.Counters.Requests
	s.run(time.Minute, nil)
	if mgr.m.Counters.Sweeps != sweeps || mgr.m.Counters.Requests != requests+6*5 {
		t.Errorf("a quiet minute has %d sweeps and %d requests, want none and 5 every 10 s",
			mgr.m.Counters.Sweeps-sweeps, mgr.m.Counters.Requests-requests)
	}
	for _, a := range []testPort{{sws[1], 2}, all[5].peers[1]} { // to the next switch, and to an adapter
		b := a.node.peers[a.port]
		a.node.peers[a.port], b.node.peers[b.port] = testPort{}, testPort{}
		for _, e := range []testPort{a, b} {
			e.node.node.Ports[e.port].Drop()
			if e.node.node.Type == node.Switch {
				e.node.node.Tables.Changed = true // and no trap
			}
		}
		sweeps := mgr.m.Counters.Sweeps
		if !s.run(15*time.Second, func() bool { return mgr.m.Counters.Sweeps > sweeps }) {
			t.Fatal("nobody has noticed within 15 s")
		}
		s.settle(mgr)
		s.check(mgr)
	}
}

// A node that comes later is configured because of the trap of its switch, long before a light sweep.
func TestLateNode(t *testing.T) {
	s := newSubnet(t)
	sw := s.addSwitch(8)
	mgr := s.manage(s.hosts(sw, 2)[0], Config{SweepInterval: time.Hour})
	s.up(mgr)
	s.hosts(sw, 1)
	s.run(time.Second, nil)
	s.check(mgr)
	if mgr.m.Counters.Traps == 0 {
		t.Error("no trap")
	}
}

// A switch that is switched off and on again has lost its tables, even where its neighbors see only a
// link that bounced.
func TestSwitchResets(t *testing.T) {
	s := newSubnet(t)
	all, sws := s.line(3, false)
	mgr := s.manage(all[0], Config{})
	s.up(mgr)
	old := sws[1]
	fresh := node.New(node.Switch, old.node.GUID, "", 8, node.DefaultSpec)
	cables := slices.Clone(old.peers)
	s.kill(old)
	*old.node = *fresh
	old.dead = false
	for p, e := range cables {
		if e.node != nil {
			s.plug(testPort{old, p}, e)
		}
	}
	s.run(time.Second, nil)
	s.settle(mgr)
	s.check(mgr)
}

// Two nodes have one GUID: the first one found works, and so does all the rest.
func TestDuplicateGUID(t *testing.T) {
	for _, kind := range []node.Type{node.CA, node.Switch} {
		s := newSubnet(t)
		all, sws := s.line(4, false)
		var twin *testNode
		if kind == node.CA {
			twin = s.addAdapter()
			twin.node.GUID, twin.node.Ports[1].GUID = all[2].node.GUID, all[2].node.Ports[1].GUID
		} else {
			twin = s.addSwitch(8)
			twin.node.GUID, twin.node.Ports[0].GUID = sws[1].node.GUID, sws[1].node.Ports[0].GUID
		}
		twin.agent = agentOf(twin)
		s.cable(twin, sws[3])
		mgr := s.manage(all[0], Config{})
		if !s.run(10*time.Second, func() bool { return mgr.m.Counters.Sweeps > 1 && !mgr.m.Busy() }) {
			t.Fatal(kind, "no sweep", mgr.events)
		}
		if !mgr.saw(DuplicateGUID) && !mgr.saw(Inconsistent) {
			t.Errorf("%v: nobody is told: %v", kind, mgr.events)
		}
		twin.dead = true // for the check
		s.check(mgr)
	}
}

// A node whose links are up and that does not answer: the other nodes work, and when it answers it is
// taken in.
func TestUnresponsive(t *testing.T) {
	s := newSubnet(t)
	all, sws := s.line(4, true)
	mgr := s.manage(all[0], Config{})
	sws[2].dead, all[3].dead = true, true
	if !s.run(10*time.Second, func() bool { return mgr.m.Counters.Sweeps > 0 && !mgr.m.Busy() }) {
		t.Fatal("no sweep", mgr.events)
	}
	s.check(mgr)
	if !mgr.saw(Unresponsive) || !mgr.saw(SweepFailed) {
		t.Errorf("nobody is told: %v", mgr.events)
	}
	sws[2].dead, all[3].dead = false, false
	s.settle(mgr)
	s.check(mgr)
	if n := len(s.connected(all[0])); n != len(mgr.m.fabric.devices) || n != 12 {
		t.Errorf("%d nodes, the manager knows %d", n, len(mgr.m.fabric.devices))
	}
}

func TestMKey(t *testing.T) {
	s := newSubnet(t)
	all, _ := s.line(3, true)
	mgr := s.manage(all[0], Config{MKey: 0x1234, Protect: 2})
	s.up(mgr)
	s.check(mgr)
	for _, b := range s.nodes {
		p := &b.node.Ports[0]
		if b.node.Type == node.CA {
			p = &b.node.Ports[1]
		}
		if p.Authority.MKey != 0x1234 || p.Authority.Protect != 2 {
			t.Errorf("node %x: %+v", b.node.GUID, p.Authority)
		}
	}
	mgr.m.Resweep(s.now)
	s.up(mgr)
	s.check(mgr)
	// A manager without the key gets nowhere: its own node is closed to it.
	s.stop(mgr)
	stranger := s.manage(all[4], Config{MKey: 0x4321})
	s.run(time.Minute, nil)
	if stranger.m.Counters.Sweeps != 0 || !stranger.saw(SweepFailed) {
		t.Errorf("%d sweeps, %v", stranger.m.Counters.Sweeps, stranger.events)
	}
	s.stop(stranger)
	heir := s.manage(all[2], Config{MKey: 0x1234, Protect: 2})
	s.up(heir)
	s.check(heir)
}

func (s *subnet) roles(t *testing.T, want ...smp.SMState) {
	t.Helper()
	for i, mgr := range s.managers {
		if got := mgr.m.State(); !mgr.off && got != want[i] {
			t.Errorf("manager %d is %v, want %v: %v", i, got, want[i], mgr.events)
		}
	}
}

func TestHandover(t *testing.T) {
	s := newSubnet(t)
	all, _ := s.line(4, true)
	low := s.manage(all[1], Config{Priority: 1})
	s.up(low)
	lids := map[*testNode]uint16{}
	for _, b := range all {
		lids[b] = b.node.Ports[1].Address.LID
	}
	// One of higher priority comes, and is handed the subnet.
	high := s.manage(all[6], Config{Priority: 9})
	all[6].agent.LocalChanged(s.now, 1, 0) // trap 144: the port has a manager now
	if !s.run(time.Minute, func() bool { return high.m.Counters.Sweeps > 0 }) {
		t.Fatal("no handover", low.events, high.events)
	}
	s.settle(high)
	s.roles(t, smp.SMStandby, smp.SMMaster)
	s.check(high)
	for _, b := range all {
		if lid := b.node.Ports[1].Address.LID; lid != lids[b] {
			t.Errorf("LID %d has become %d", lids[b], lid)
		}
	}
	// It dies: the first one notices, and takes over.
	s.stop(high)
	sweeps := low.m.Counters.Sweeps
	if !s.run(time.Minute, func() bool { return low.m.Counters.Sweeps > sweeps }) {
		t.Fatal("nobody took over", low.events)
	}
	s.settle(low)
	s.check(low)
	// A third one with the same priority as the first stands by or leads by its GUID.
	third := s.manage(all[0], Config{Priority: 1}) // a lower GUID
	all[0].agent.LocalChanged(s.now, 1, 0)
	if !s.run(time.Minute, func() bool { return third.m.Counters.Sweeps > 0 }) {
		t.Fatal("no handover to the lower GUID", low.events, third.events)
	}
	s.settle(third)
	s.roles(t, smp.SMStandby, smp.SMStandby, smp.SMMaster)
	s.check(third)
}

// Managers that begin at the same time agree on one.
func TestElection(t *testing.T) {
	for seed := range uint64(20) {
		s := newSubnet(t)
		s.rng = rand.New(rand.NewPCG(seed, 5))
		all, _ := s.line(5, true)
		var best *testManager
		for range 4 {
			b := all[s.rng.IntN(len(all))]
			if b.manager != nil {
				continue
			}
			mgr := s.manage(b, Config{Priority: uint8(s.rng.IntN(3))})
			own := mgr.m.smInfo()
			if best == nil || best.m.outranks(&own) {
				best = mgr
			}
		}
		s.run(2*time.Minute, nil)
		masters := 0
		for _, mgr := range s.managers {
			if mgr.m.State() == smp.SMMaster {
				masters++
			}
		}
		if masters != 1 || best.m.State() != smp.SMMaster {
			t.Errorf("seed %d: %d masters; the best is %v", seed, masters, best.m.State())
			continue
		}
		s.check(best)
	}
}

// Two subnets with a master each become one.
func TestMerge(t *testing.T) {
	s := newSubnet(t)
	left, ls := s.line(3, false)
	right, rs := s.line(3, false)
	a, b := s.manage(left[0], Config{Priority: 3}), s.manage(right[0], Config{Priority: 5})
	s.settle(a)
	s.settle(b)
	s.check(a)
	s.check(b)
	s.cable(ls[2], rs[2])
	s.run(time.Minute, nil)
	s.roles(t, smp.SMStandby, smp.SMMaster)
	s.check(b)
	if n := len(b.m.fabric.devices); n != 18 {
		t.Errorf("%d nodes, want 18", n)
	}
}

func TestEventTexts(t *testing.T) {
	for e, want := range map[Event]string{
		{Kind: BecameMaster}:         "is the master",
		{Kind: SweepDone, Count: 12}: "subnet of 12 nodes is up",
		{Kind: Unresponsive, GUID: 0xab,
			Port: 3}: "no answer from port 3 of node 0x00000000000000ab, or from behind it",
		{Kind: DuplicateGUID, GUID: 1 << 63, Port: 1,
			Text: `"leaf-1"`}: "two have the GUID of node 0x8000000000000000; the second, behind port 1 of \"leaf-1\", is left out: give it another GUID",
		{Kind: LinkGone, GUID: 7, Node: "a\nb", Port: 2,
			Text: `port 3 of "c"`}: `no cable any more: port 2 of "a\nb" (0x0000000000000007) to port 3 of "c"`,
		{Kind: 99}: "event 99",
	} {
		if got := e.String(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	for k := BecameMaster; k <= TrapReceived; k++ {
		if eventTexts[k] == "" {
			t.Errorf("event %d has no text", k)
		}
	}
}

// An adapter with both ports in the subnet has two LIDs and both work.
func TestTwoPorts(t *testing.T) {
	s := newSubnet(t)
	all, sws := s.line(3, true)
	two := s.add(node.CA, 2)
	s.cable(two, sws[0])
	s.cable(two, sws[2])
	mgr := s.manage(all[0], Config{})
	s.up(mgr)
	s.check(mgr)
	a, b := two.node.Ports[1].Address.LID, two.node.Ports[2].Address.LID
	if a == 0 || b == 0 || a == b || len(mgr.m.fabric.devices) != len(s.nodes) {
		t.Errorf("LIDs %d and %d, %d devices", a, b, len(mgr.m.fabric.devices))
	}
}

// Ports whose clients this manager does not know get ClientReregister, others do not.
func TestReregister(t *testing.T) {
	s := newSubnet(t)
	sw := s.addSwitch(8)
	all := s.hosts(sw, 3)
	mgr := s.manage(all[0], Config{})
	s.up(mgr)
	told := func() (n int) {
		for _, b := range s.nodes {
			if b.node.Type == node.CA && b.node.Ports[1].Address.Reregister {
				b.node.Ports[1].Address.Reregister = false
				n++
			}
		}
		return n
	}
	if n := told(); n != 3 {
		t.Errorf("%d are told by a new master, want 3", n)
	}
	s.hosts(sw, 1)
	s.run(time.Second, nil)
	s.check(mgr)
	if n := told(); n != 1 {
		t.Errorf("%d are told when one comes, want 1", n)
	}
}

// A port that sends traps without end makes the manager sweep, but leaves it time for others.
func TestTrapStorm(t *testing.T) {
	s := newSubnet(t)
	all, _ := s.line(3, true)
	mgr := s.manage(all[0], Config{})
	s.up(mgr)
	before := mgr.m.Counters
	for range 1000 {
		all[3].agent.LocalChanged(s.now, 1, 0)
		s.run(time.Millisecond, nil)
	}
	traps, sweeps := mgr.m.Counters.Traps-before.Traps, mgr.m.Counters.Sweeps-before.Sweeps
	if traps < 900 || sweeps < 5 || sweeps > 25 {
		t.Errorf("%d traps and %d sweeps in a second, want at most 20 or so", traps, sweeps)
	}
	s.settle(mgr)
	s.check(mgr)
}
