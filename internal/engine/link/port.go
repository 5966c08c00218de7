// SPDX-License-Identifier: Apache-2.0

package link

import (
	"github.com/ramjet-rdma/ramjet/internal/core/clock"
	"github.com/ramjet-rdma/ramjet/internal/engine/node"
)

// Lanes of a port: data, management, and one for what an adapter sends to itself, which is of no link.
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
	direct bool  // what this port sends is at the peer at once, and never lost

	out     [numLanes]outLane
	in      [numLanes]inLane
	busy    uint32 // lanes of out that have packets
	arb     arbiter
	tx      *Packet // whose bytes are leaving, if links are paced
	credits creditUpdates

	flights  flights // what is on the cable towards this port
	arrivals fifo    // what waits for Receive
	timers   [numTimers - 1]timer

	nextReady *Port
	queued    bool  // in the list of ready ports
	copyLane  uint8 // by which a copy of the multicast packet at hand leaves
	events    Events

	psPerByte int64      // of a paced link
	waitSince clock.Time // since when there is something to send and no credit; 0: there is not
	inChanged bool       // in the list of ports to be examined
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

// State returns what the subnet sees of the port.
func (p *Port) State() *node.Port { return p.state }

// Peer returns the port at the other end of the cable; nil: there is none in this process.
func (p *Port) Peer() *Port { return p.peer }

// Cable returns the cable in the port; nil: there is none in this process.
func (p *Port) Cable() *Cable { return p.cable }

// Queued returns the packets that wait to be sent on a lane.
func (p *Port) Queued(vl uint8) int { return int(p.out[vl].n) }

// BufferUsed returns the 64-byte blocks of a lane's receive buffer that are taken.
func (p *Port) BufferUsed(vl uint8) int { return int(p.in[vl].used) }

// portUp takes the port to Initialize. Counts of flow control start at zero (section 7.9.4.4).
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

// portDown takes the port to Down. What waits to be sent is lost.
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
		n.drop(p.tx)
		p.tx = nil
		n.markReady(p)
	}
	for f := p.flights.pop(); f.when != 0; f = p.flights.pop() {
		if f.packet != nil {
			n.free(f.packet)
		}
	}
	n.timers.stop(&p.timers[arrivalTimer])
	n.timers.stop(&p.timers[refreshTimer])
	n.timers.stop(&p.timers[expireTimer])
	n.timers.stop(&p.timers[downTimer])
	p.credits.due, p.waitSince = 0, 0
	n.linkChanged(p)
}

// linkChanged tells all who have to know that a port's link came up or went down (section 18.2.5.1).
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

// portChanged has a port examined that a management packet has changed.
func (n *Net) portChanged(p *Port) {
	n.wake(p, Changed)
	if !p.inChanged {
		p.inChanged = true
		n.changedPorts = append(n.changedPorts, p)
	}
}

// followState makes the link follow the state that a manager has set (section 7.2.7): Down and Disabled end
// it, after which it trains again, unless one end is disabled.
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
	n.markReady(p) // tables and states decide what may be sent
}

// downDelay is how long a link that a manager has ended stays up: the answer to the manager may go over it.
const downDelay clock.Time = 20_000

// downRequested reports whether a manager has ended the link.
func (p *Port) downRequested() bool {
	return p.state.Link.Retrain || p.state.Link.Logical == node.Down || p.state.Link.Physical != node.PhysLinkUp
}

// takeDown takes the link of a port down that a manager has ended.
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
