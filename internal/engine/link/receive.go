// SPDX-License-Identifier: Apache-2.0

package link

import (
	"github.com/ramjet-rdma/ramjet/internal/engine/node"
	"github.com/ramjet-rdma/ramjet/wire/ib"
)

// arrive takes a packet that has come over the link of port q on a lane (section 7.3).
func (n *Net) arrive(q *Port, p *Packet, lane uint8) {
	c := &q.state.Counters
	if p.vcrcError {
		c.SymbolErrors++
		c.RcvErrors++
		n.free(p)
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

// discard frees a packet that has come to port q, and is not taken into its buffer.
func (n *Net) discard(q *Port, p *Packet, lane uint8) {
	n.free(p)
	n.creditChanged(q, lane)
}

// arriveOwn takes a packet that an adapter's port has sent to itself.
func (n *Net) arriveOwn(q *Port, p *Packet) {
	q.in[loopLane].used += p.blocks
	p.in, p.inLane, p.arrived = q, loopLane, n.now
	n.deliver(q, p)
}

// deliver gives a packet at an adapter to whom it is for.
func (n *Net) deliver(q *Port, p *Packet) {
	c := &q.state.Counters
	bth := p.bth()
	if bth == 0 {
		c.RcvErrors++ // raw, or too short
		n.drop(p)
		return
	}
	qp := p.destQP(bth)
	if p.inLane == managementLane || qp == ib.QP0 {
		n.deliverManagement(q, p)
		return
	}
	if dlid := p.dlid(); !q.owns(dlid) && !multicast(dlid) {
		c.RcvErrors++
		n.drop(p)
		return
	}
	if qp == ib.QP1 && n.deliverDatagram(q, p, bth) {
		return
	}
	n.queueArrival(q, p)
}

// queueArrival lets a packet wait for Receive.
func (n *Net) queueArrival(q *Port, p *Packet) {
	p.port = uint8(q.num)
	q.arrivals.push(p)
	n.wake(q, Arrived)
}

// Receive returns the packet that has waited longest at an adapter's port, nil: none waits. Its link
// header is right and for this port; P_Key and queue pair are the transport's to check, and the ICRC
// unless [Packet.NoICRC] says that it cannot be wrong. The packet holds its place in the port's
// buffer until [Net.Release].
func (n *Net) Receive(q *Port) *Packet { return q.arrivals.pop() }

// Release takes back a packet that Receive, ReceiveMAD or Alloc returned, and gives its place in the buffer to
// whoever sends to the port.
func (n *Net) Release(p *Packet) { n.drop(p) }

// Vacate gives the place of a packet that Receive returned to whoever sends to the port, before the packet
// is released: for those who keep it elsewhere.
func (n *Net) Vacate(p *Packet) { n.releaseBuffer(p) }
