// SPDX-License-Identifier: Apache-2.0

package link

import (
	"math/bits"

	"github.com/ramjet-rdma/ramjet/internal/engine/node"
	"github.com/ramjet-rdma/ramjet/wire/ib"
)

// forward forwards a packet that has entered a switch at port q (section 18.2.4).
func (n *Net) forward(q *Port, p *Packet) {
	dlid := p.dlid()
	if p.inLane == managementLane && dlid == node.PermissiveLID {
		n.deliverManagement(q, p)
		return
	}
	if q.state.Partition.EnforceIn && !q.admits(p) {
		q.state.Counters.RcvConstraint++
		n.reportPKeyViolation(q, p)
		n.lose(p)
		return
	}
	if multicast(dlid) {
		n.forwardMulticast(q, p, dlid)
		return
	}
	nd := q.node
	if nd.ports[0].owns(dlid) {
		n.deliverToSwitch(q, p)
		return
	}
	out := route(nd.state.Tables, dlid)
	if out == node.NoRoute || int(out) >= len(nd.ports) || int(out) == q.num {
		q.state.Counters.RcvSwitchRelayErrors++
		n.lose(p)
		return
	}
	if out == 0 {
		n.deliverToSwitch(q, p)
		return
	}
	o := nd.ports[out]
	lane, ok := n.outputLane(o, q, p)
	if !ok {
		n.lose(p)
		return
	}
	n.enqueue(o, lane, q.num, p)
}

// route returns the output port of a LID.
func route(t *node.Tables, lid uint16) uint8 {
	if lid == 0 || lid > t.Top || int(lid) >= len(t.Linear) {
		return node.NoRoute
	}
	return t.Linear[lid]
}

// outputLane returns the lane on which a packet from input port q leaves port o. If port o must not send it,
// outputLane counts why and returns false.
func (n *Net) outputLane(o, q *Port, p *Packet) (uint8, bool) {
	c := &o.state.Counters
	if p.inLane == managementLane {
		if !o.up {
			c.XmitDiscards++
		}
		return managementLane, o.up
	}
	if o.state.Link.Logical != node.Active || o.tooLong(p) {
		c.XmitDiscards++
		return 0, false
	}
	lane := o.state.Lanes.SLtoVL[q.num][p.sl()]
	if lane >= o.state.Lanes.Operational { // 15 among them: section 7.6.6
		c.XmitDiscards++
		return 0, false
	}
	if o.state.Partition.EnforceOut && !o.admits(p) {
		c.XmitConstraint++
		n.reportPKeyViolation(o, p)
		return 0, false
	}
	return lane, true
}

// admits reports whether a port's partition table admits a packet (section 10.9.3): one of the two keys must be a full
// member's. Raw packets and packets to queue pair 0 have no partition.
func (o *Port) admits(p *Packet) bool {
	bth := p.bth()
	if bth == 0 || p.inLane == managementLane {
		return true
	}
	key := p.pkey(bth)
	for _, k := range o.state.Partition.PKeys {
		if k.Match(key) {
			return true
		}
	}
	return false
}

// forwardMulticast sends copies of a packet to the ports of its group, but not back (section 18.2.4.3.3).
func (n *Net) forwardMulticast(q *Port, p *Packet, dlid uint16) {
	nd := q.node
	t := nd.state.Tables
	var group [4]uint64
	if i := int(dlid - node.FirstMulticastLID); i < len(t.Multicast) {
		group = t.Multicast[i]
	}
	if group == [4]uint64{} {
		other := t.PrimaryMulticast
		if q.num == int(other) {
			other = t.NotPrimaryMulticast
		}
		if other != node.NoRoute && other != 0 {
			group[other/64] |= 1 << (other % 64)
		}
	}
	if q.num < 256 {
		group[q.num/64] &^= 1 << (q.num % 64)
	}
	outs := n.copies[:0]
	toSwitch := group[0]&1 != 0
	group[0] &^= 1
	for w, word := range group {
		for ; word != 0; word &= word - 1 {
			num := w*64 + bits.TrailingZeros64(word)
			if num >= len(nd.ports) {
				break
			}
			o := nd.ports[num]
			if lane, ok := n.outputLane(o, q, p); ok {
				if q.num == 0 && o.out[lane].queueLen(0) >= n.cfg.SendQueue {
					o.state.Counters.XmitDiscards++
					continue
				}
				o.copyLane = lane
				outs = append(outs, o)
			}
		}
	}
	n.copies = outs
	if toSwitch {
		p.holds++
	}
	for _, o := range outs {
		if len(outs) == 1 && !toSwitch {
			n.enqueue(o, o.copyLane, q.num, p)
			return
		}
		p.holds++
	}
	if p.holds == 0 {
		if group == [4]uint64{} {
			q.state.Counters.RcvSwitchRelayErrors++
		}
		n.lose(p)
		return
	}
	if toSwitch {
		c := n.copyOf(p)
		c.hold = p
		n.deliverToSwitch(q, c)
	}
	for _, o := range outs {
		c := n.copyOf(p)
		c.hold = p
		n.enqueue(o, o.copyLane, q.num, c)
	}
}

// deliverToSwitch delivers a packet to the switch's port 0.
func (n *Net) deliverToSwitch(q *Port, p *Packet) {
	bth := p.bth()
	if p.inLane == managementLane {
		n.deliverManagement(q, p)
		return
	}
	if bth != 0 && p.destQP(bth) == ib.QP1 && n.deliverDatagram(q, p, bth) {
		return
	}
	q.state.Counters.RcvErrors++ // a switch has no other queue pairs
	n.lose(p)
}

// sendFromSwitch sends a packet from a switch's port 0, by forwarding it as if it had come in there.
func (n *Net) sendFromSwitch(o *Port, dlid uint16, p *Packet) bool {
	nd := o.node
	if !multicast(dlid) && !o.owns(dlid) {
		out := route(nd.state.Tables, dlid)
		if out != node.NoRoute && out != 0 && int(out) < len(nd.ports) {
			lane := uint8(managementLane)
			if p.bytes[0]>>4 != managementLane {
				lane = nd.ports[out].state.Lanes.SLtoVL[0][p.sl()] & 15
			}
			if l := &nd.ports[out].out[lane]; l.queueLen(0) >= n.cfg.SendQueue {
				return false
			}
		}
	}
	p.inLane = p.bytes[0] >> 4
	n.forward(o, p)
	return true
}
