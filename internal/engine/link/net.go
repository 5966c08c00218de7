// SPDX-License-Identifier: Apache-2.0

package link

import (
	"github.com/ramjet-rdma/ramjet/internal/base/clock"
	"github.com/ramjet-rdma/ramjet/internal/engine/node"
	"github.com/ramjet-rdma/ramjet/wire/ib"
)

// Config are the parameters of a network.
type Config struct {
	// Seed is the seed of the errors on cables.
	Seed uint64
	// Paced makes packets take the time that their link's width and speed imply. Otherwise they move as fast as
	// [Net.Run] is called.
	Paced bool
	// Buffer is the receive buffer of each lane of a port in blocks of 64 bytes, at most 2048, the limit of
	// credits (section 7.9.4.4), and at least two packets. 0: 1024.
	Buffer int
	// SendQueue is how many packets a lane of an adapter queues before [Net.Send] returns false; 0: 64.
	SendQueue int
	// Refresh is how often flow control packets are repeated on cables to other processes and, on links that are
	// not paced, on cables with errors; 0: 1 ms. The interval grows while nothing changes.
	Refresh clock.Time
}

// minBuffer is room for two packets of any size.
var minBuffer = 2 * int(blocksOf(ib.MaxPacket))

const (
	maxBuffer      = 2048
	maxDatagrams   = 1024 // queued for a node's manager
	defaultBuffer  = 1024
	defaultQueue   = 64
	defaultRefresh = 1_000_000
)

// Net is a network of nodes and cables.
type Net struct {
	cfg    Config
	now    clock.Time
	pool   pool
	timers timers
	random random

	ready        *Port // list of ports that may have something to send, in the order of their turns
	readyLast    *Port
	changedPorts []*Port // ports whose state has been changed
	woken        []*Port
	copies       []*Port // output ports of the multicast packet that is being forwarded
	record       Recorder
	scratch      []byte // for frames that are recorded or corrupted
	losses       uint64 // see Losses
}

// New returns a network without nodes.
func New(cfg Config) *Net {
	if cfg.Buffer == 0 {
		cfg.Buffer = defaultBuffer
	}
	cfg.Buffer = min(max(cfg.Buffer, minBuffer), maxBuffer)
	if cfg.SendQueue <= 0 {
		cfg.SendQueue = defaultQueue
	}
	if cfg.Refresh <= 0 {
		cfg.Refresh = defaultRefresh
	}
	return &Net{cfg: cfg, random: random(cfg.Seed)}
}

// Node is a node in a network.
type Node struct {
	state *node.Node
	agent Agent
	ports []*Port // by number; an adapter's index 0 is unused
	off   bool

	accepts   func(mad []byte) bool // reports whether the node's manager accepts a datagram; nil: no manager
	datagrams fifo
	timer     timer
}

// State returns the state of the node that the subnet sees.
func (nd *Node) State() *node.Node { return nd.state }

// Port returns a port by its number: from 1 on, and a switch's 0.
func (nd *Node) Port(num int) *Port { return nd.ports[num] }

// Add adds a node whose links are all down. With a nil agent every management packet is delivered: see
// [Net.Receive] and [Net.ReceiveMAD]. The net sets the node's Changed, and calls the previous function from it.
func (n *Net) Add(state *node.Node, agent Agent) *Node {
	nd := &Node{state: state, agent: agent, ports: make([]*Port, len(state.Ports))}
	for i := range nd.ports {
		nd.ports[i] = newPort(n, nd, i)
	}
	nd.timer = timer{kind: agentTimer, node: nd}
	before := state.Changed
	state.Changed = func(port int) {
		if port < len(nd.ports) {
			n.portChanged(nd.ports[port])
		}
		if before != nil {
			before(port)
		}
	}
	n.agentDue(nd)
	return nd
}

// Remove removes a node: it pulls its cables and drops queued packets. Packets that Receive returned must still
// be released.
func (n *Net) Remove(now clock.Time, nd *Node) {
	n.advance(now)
	for _, p := range nd.ports {
		if p.cable != nil {
			n.Pull(now, p.cable)
		}
		if p.remote {
			n.RemoteDown(now, p)
		}
		n.flush(p, loopLane)
		for q := p.arrivals.pop(); q != nil; q = p.arrivals.pop() {
			n.lose(q)
		}
	}
	for q := nd.datagrams.pop(); q != nil; q = nd.datagrams.pop() {
		n.lose(q)
	}
	nd.off, nd.agent = true, nil
	n.timers.stop(&nd.timer)
}

// Power switches a node off, which takes down its links, or on again. Its tables stay.
func (n *Net) Power(now clock.Time, nd *Node, on bool) {
	n.advance(now)
	nd.off = !on
	for _, p := range nd.ports {
		if p.cable == nil {
			continue
		}
		if !on {
			n.linkDown(p.cable)
		} else {
			n.train(p.cable)
		}
	}
}

func (n *Net) advance(now clock.Time) { n.now = max(n.now, now) }

// Run moves the packets that can move by now, at most budget of them, and reports whether there are more.
func (n *Net) Run(now clock.Time, budget int) bool {
	if n.now > now {
		now = n.now
	}
	for {
		for len(n.changedPorts) > 0 {
			p := n.changedPorts[len(n.changedPorts)-1]
			n.changedPorts = n.changedPorts[:len(n.changedPorts)-1]
			n.followState(p)
		}
		if n.ready != nil {
			if budget <= 0 {
				return true
			}
			p := n.popReady()
			budget -= n.serve(p, min(budget, burst))
			continue
		}
		when := n.timers.next()
		if when == 0 || when > now {
			n.advance(now)
			return false
		}
		if budget <= 0 {
			return true
		}
		budget--
		n.advance(when)
		n.expired(n.timers.heap[0])
	}
}

// burst is how many packets a port sends in its turn.
const burst = 8

// expired handles a timer that is due.
func (n *Net) expired(t *timer) {
	n.timers.stop(t)
	switch t.kind {
	case txTimer:
		n.txDone(t.port)
	case arrivalTimer:
		n.arrivals(t.port)
	case refreshTimer:
		n.refreshCredits(t.port)
	case expireTimer:
		n.expire(t.port)
	case downTimer:
		n.takeDown(t.port)
	case lateTimer:
		n.sendLate(t.port)
	case agentTimer:
		n.sendTraps(t.node)
	}
}

// Deadline returns when Run is due; 0: not before another call.
func (n *Net) Deadline() clock.Time {
	if n.ready != nil || len(n.changedPorts) > 0 {
		return max(n.now, 1)
	}
	return n.timers.next()
}

// markReady queues a port to be served, if it is neither queued nor sending.
func (n *Net) markReady(p *Port) {
	if p.queued || p.tx != nil {
		return
	}
	p.queued = true
	if n.ready == nil {
		n.ready = p
	} else {
		n.readyLast.nextReady = p
	}
	n.readyLast = p
}

func (n *Net) popReady() *Port {
	p := n.ready
	n.ready, p.nextReady, p.queued = p.nextReady, nil, false
	return p
}

// Events is the set of events for which a port's owner is woken.
type Events uint8

const (
	Arrived   Events = 1 << iota // [Net.Receive] has packets
	Room                         // [Net.Send] has returned false and may take packets again
	Changed                      // the state of the port, or a value that managers set, has changed
	Frames                       // [Net.NextFrame] may have frames
	Datagrams                    // [Net.ReceiveMAD] has packets
)

// Wake is a port and its events.
type Wake struct {
	Port   *Port
	Events Events
}

func (n *Net) wake(p *Port, e Events) {
	if p.events == 0 {
		n.woken = append(n.woken, p)
	}
	p.events |= e
}

// Woken appends to buf the events since the last call. Arrived and the like are edge-triggered: the owner must
// take all packets, as the event comes again only with another one.
func (n *Net) Woken(buf []Wake) []Wake {
	for _, p := range n.woken {
		buf = append(buf, Wake{p, p.events})
		p.events = 0
	}
	n.woken = n.woken[:0]
	return buf
}
