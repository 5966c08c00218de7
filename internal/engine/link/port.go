// SPDX-License-Identifier: Apache-2.0

package link

import (
	"github.com/ramjet-rdma/ramjet/internal/base/clock"
	"github.com/ramjet-rdma/ramjet/internal/engine/node"
)

// Lanes of a port: data lanes, the management lane, and one for packets of an adapter to itself, which do not use
// the link.
const (
	managementLane = node.ManagementVL
	loopLane       = 16
	numLanes       = 17
)

// Port is a port of a node.
type Port struct {
	node  *Node
	state *node.Port
	num   int

	cable  *Cable
	peer   *Port // at the other end of the cable
	remote bool  // the cable leads to another process
	up     bool  // there is a link
	direct bool  // packets reach the peer at once and are never lost: credits need no packets

	out     [numLanes]outLane
	in      [numLanes]inLane
	busy    uint32 // lanes of out that have packets
	arb     arbiter
	tx      *Packet // being sent, if links are paced
	credits creditUpdates

	late     []latePacket // packets that were held back to be overtaken, by their time
	flights  flights      // packets on the cable towards this port
	arrivals fifo         // packets that wait for Receive
	timers   [numTimers - 1]timer

	nextReady *Port
	queued    bool  // in the list of ready ports
	copyLane  uint8 // output lane of the multicast packet that is being forwarded
	events    Events

	psPerByte int64      // picoseconds per byte of a paced link; 0: not paced
	waitSince clock.Time // since when packets wait for credits; 0: none do
	inChanged bool       // in Net.changedPorts
}

func newPort(n *Net, nd *Node, num int) *Port {
	p := &Port{node: nd, state: &nd.state.Ports[num], num: num}
	for i := range p.in {
		p.in[i].size = uint16(n.cfg.Buffer)
	}
	for i := range p.out {
		p.out[i].first, p.out[i].last = none, none
	}
	for i := range p.timers {
		p.timers[i] = timer{kind: timerKind(i), port: p}
	}
	return p
}

// Node returns the node of the port.
func (p *Port) Node() *Node { return p.node }

// Num returns the number of the port in its node.
func (p *Port) Num() int { return p.num }

// State returns the state of the port that the subnet sees.
func (p *Port) State() *node.Port { return p.state }

// Peer returns the port at the other end of the cable; nil: there is none in this process.
func (p *Port) Peer() *Port { return p.peer }

// Cable returns the cable in the port; nil: there is none in this process.
func (p *Port) Cable() *Cable { return p.cable }

// Queued returns how many packets are queued to be sent on a lane.
func (p *Port) Queued(vl uint8) int { return int(p.out[vl].n) }

// Idle reports whether nothing is queued to be sent on any lane.
func (p *Port) Idle() bool { return p.busy == 0 }

// BufferUsed returns how many 64-byte blocks of a lane's receive buffer are in use.
func (p *Port) BufferUsed(vl uint8) int { return int(p.in[vl].used) }

// portUp takes the port to Initialize. The flow control counters start at zero (section 7.9.4.4).
func (n *Net) portUp(p *Port, w node.Width, s node.Speed) {
	p.state.Up(w, s)
	p.up = true
	p.psPerByte = 0
	if mbps := p.state.Link.RateMbps(); n.cfg.Paced && mbps > 0 {
		p.psPerByte = 8_000_000 / mbps
	}
	for i := range managementLane {
		p.out[i].fctbs, p.out[i].fccl = 0, 0
		p.in[i].abr, p.in[i].advertised = 0, 0
	}
	p.arb = arbiter{}
	p.credits.idle, p.credits.changed = 0, true
	n.linkChanged(p)
}

// portDown takes the port to Down, and discards the packets that are queued to be sent.
func (n *Net) portDown(p *Port) {
	p.state.Drop()
	if !p.up {
		return
	}
	p.up = false
	for i := range loopLane {
		n.flush(p, uint8(i))
	}
	if p.tx != nil && p.tx.lane != loopLane {
		n.timers.stop(&p.timers[txTimer])
		p.state.Counters.XmitDiscards++
		n.lose(p.tx)
		p.tx = nil
		n.markReady(p)
	}
	n.flushLate(p)
	for f := p.flights.pop(); f.when != 0; f = p.flights.pop() {
		if f.packet != nil {
			n.lose(f.packet)
		}
	}
	n.timers.stop(&p.timers[arrivalTimer])
	n.timers.stop(&p.timers[refreshTimer])
	n.timers.stop(&p.timers[expireTimer])
	n.timers.stop(&p.timers[downTimer])
	p.credits.due, p.waitSince = 0, 0
	n.linkChanged(p)
}

// linkChanged reports that a port's link came up or went down (section 18.2.5.1).
func (n *Net) linkChanged(p *Port) {
	n.wake(p, Changed)
	nd := p.node
	if t := nd.state.Tables; t != nil {
		t.Changed = true
		nd.state.Ports[0].Notices.StateChanged = true
	}
	if a, ok := nd.agent.(Notifier); ok {
		a.LinkChanged(n.now, p.num)
		n.agentDue(nd)
	}
}

// portChanged schedules followState, after a management packet has changed a port.
func (n *Net) portChanged(p *Port) {
	n.wake(p, Changed)
	if !p.inChanged {
		p.inChanged = true
		n.changedPorts = append(n.changedPorts, p)
	}
}

// followState makes the link follow the state that a manager has set (section 7.2.7): Down and Disabled take it
// down; it then trains again unless one end is disabled.
func (n *Net) followState(p *Port) {
	p.inChanged = false
	if p.up && p.downRequested() {
		when := n.now + downDelay
		if p.cable != nil {
			when += p.cable.delay
		}
		n.timers.set(&p.timers[downTimer], when)
		return
	}
	if !p.up && p.cable != nil {
		n.train(p.cable)
	}
	if !p.up {
		return
	}
	if !p.direct {
		p.credits.due |= p.lanes() // lanes may have become operational
	}
	n.markReady(p) // new tables or states may allow more to be sent
}

// downDelay is how long in nanoseconds a link stays up after a manager has taken it down: the response may use it.
const downDelay clock.Time = 20_000

// downRequested reports whether a manager has taken the link down.
func (p *Port) downRequested() bool {
	return p.state.Link.Retrain || p.state.Link.Logical == node.Down || p.state.Link.Physical != node.PhysLinkUp
}

// takeDown takes down a link that a manager still wants down, and trains it again.
func (n *Net) takeDown(p *Port) {
	switch {
	case !p.up || !p.downRequested():
		return
	case p.remote:
		n.portDown(p)
		return
	}
	c := p.cable
	n.linkDown(c)
	n.train(c)
}

// lanes returns the data lanes in use as a set.
func (p *Port) lanes() uint16 {
	return uint16(1)<<min(p.state.Lanes.Operational, node.DataVLs) - 1
}
