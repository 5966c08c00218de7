// SPDX-License-Identifier: Apache-2.0

package link

import (
	"github.com/ramjet-rdma/ramjet/internal/engine/node"
	"github.com/ramjet-rdma/ramjet/wire/ib"
)

// arrive handles a packet received over the link of port q on a lane (section 7.3).
func (n *Net) arrive(q *Port, p *Packet, lane uint8) {
	c := &q.state.Counters
	if p.vcrcError {
		c.SymbolErrors++
		c.RcvErrors++
		n.lose(p)
		n.notifyAgent(q, func(w Watcher) { w.PhysicalError(n.now, q.num) })
		return
	}
	in := &q.in[lane]
	if lane != managementLane {
		in.abr = (in.abr + p.blocks) & creditMask // dropped or not: the sender has counted it
		q.credits.changed = true
	}
	switch state := q.state.Link.Logical; {
	case state == node.Active || state >= node.Initialize && lane == managementLane:
	case state == node.Armed:
		q.state.Link.Logical = node.Active // section 7.2.7
		n.wake(q, Changed)
		n.markReady(q)
	default:
		c.RcvErrors++
		n.discard(q, p, lane)
		return
	}
	if !p.wellFormed() {
		c.RcvErrors++
		n.discard(q, p, lane)
		return
	}
	c.RcvPkts++
	c.RcvData += uint64(len(p.bytes) / 4)
	if multicast(p.dlid()) {
		c.MulticastRcv++
	} else {
		c.UnicastRcv++
	}
	if in.used+p.blocks > in.size {
		if lane == managementLane {
			c.VL15Dropped++
		} else {
			c.BufferOverrun++
			n.notifyAgent(q, func(w Watcher) { w.BufferOverrun(n.now, q.num) })
		}
		n.discard(q, p, lane)
		return
	}
	if lane != managementLane {
		c.LanePkts++
	}
	in.used += p.blocks
	p.in, p.inLane, p.arrived = q, lane, n.now
	if q.node.state.Tables != nil {
		n.forward(q, p)
	} else {
		n.deliver(q, p)
	}
}

// discard frees a packet received at port q that does not enter its buffer.
func (n *Net) discard(q *Port, p *Packet, lane uint8) {
	n.lose(p)
	n.creditChanged(q, lane)
}

// arriveOwn handles a packet that an adapter's port has sent to itself.
func (n *Net) arriveOwn(q *Port, p *Packet) {
	q.in[loopLane].used += p.blocks
	p.in, p.inLane, p.arrived = q, loopLane, n.now
	n.deliver(q, p)
}

// deliver passes a packet at an adapter to its agent, its manager or its owner.
func (n *Net) deliver(q *Port, p *Packet) {
	c := &q.state.Counters
	bth := p.bth()
	if bth == 0 {
		c.RcvErrors++ // raw, or too short
		n.lose(p)
		return
	}
	qp := p.destQP(bth)
	if p.inLane == managementLane || qp == ib.QP0 {
		n.deliverManagement(q, p)
		return
	}
	if dlid := p.dlid(); !q.owns(dlid) && !multicast(dlid) {
		c.RcvErrors++
		n.lose(p)
		return
	}
	if qp == ib.QP1 && n.deliverDatagram(q, p, bth) {
		return
	}
	n.queueArrival(q, p)
}

// queueArrival queues a packet for Receive.
func (n *Net) queueArrival(q *Port, p *Packet) {
	p.port = uint8(q.num)
	q.arrivals.push(p)
	n.wake(q, Arrived)
}

// Receive returns the oldest packet received at an adapter's port; nil: none waits. Its LRH is checked; P_Key,
// queue pair and, unless [Packet.NoICRC] is set, the ICRC are the caller's to check. The packet occupies the
// port's receive buffer until [Net.Release].
func (n *Net) Receive(q *Port) *Packet { return q.arrivals.pop() }

// Release frees a packet that Receive, ReceiveMAD or Alloc returned, and its space in the receive buffer.
func (n *Net) Release(p *Packet) { n.drop(p) }

// Vacate frees the buffer space of a packet that Receive returned, before the packet itself is released.
func (n *Net) Vacate(p *Packet) { n.releaseBuffer(p) }
