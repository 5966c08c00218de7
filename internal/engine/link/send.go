// SPDX-License-Identifier: Apache-2.0

package link

import (
	"math/bits"

	"github.com/ramjet-rdma/ramjet/internal/base/clock"
	"github.com/ramjet-rdma/ramjet/internal/engine/node"
	"github.com/ramjet-rdma/ramjet/wire/ib"
)

// Send sends a packet from a port. All headers are filled in but the virtual lane, which follows from the service
// level; only subnet management packets set it, to 15. A packet to the port's own LID, and a copy of one to a
// group, are looped back. Send returns false if the lane's queue is full; the packet is still the caller's, and
// [Net.Woken] reports when there is room. A packet that the port cannot send is accepted and discarded (sections
// 7.2.7, 7.6.6).
func (n *Net) Send(now clock.Time, o *Port, p *Packet) bool {
	n.advance(now)
	if !p.wellFormed() || p.lnh() < ib.LNHLocal || p.bth() == 0 {
		return n.refuse(o, p)
	}
	p.blocks, p.arrived = blocksOf(len(p.bytes)), n.now
	if p.bytes[0]>>4 == managementLane {
		n.sendManagement(o, p)
		return true
	}
	dlid := p.dlid()
	if o.num == 0 {
		return n.sendFromSwitch(o, dlid, p)
	}
	lane, ok := o.lane(p)
	switch {
	case !ok:
		return n.refuse(o, p)
	case n.full(o, lane), multicast(dlid) && n.full(o, loopLane):
		return false
	}
	if multicast(dlid) {
		n.enqueue(o, loopLane, 0, n.copyOf(p))
	}
	n.enqueue(o, lane, 0, p)
	return true
}

// lane returns the lane on which a packet leaves an adapter's port; false: the port cannot send it.
func (o *Port) lane(p *Packet) (uint8, bool) {
	lane := o.state.Lanes.SLtoVL[0][p.sl()]
	if o.state.Link.Logical != node.Active || lane >= o.state.Lanes.Operational || o.tooLong(p) || o.node.off {
		return 0, false
	}
	if o.owns(p.dlid()) {
		lane = loopLane
	}
	return lane, true
}

// full reports whether a lane's queue is full. If so, [Net.Woken] reports when there is room.
func (n *Net) full(o *Port, lane uint8) bool {
	is := int(o.out[lane].n) >= n.cfg.SendQueue
	o.out[lane].roomWanted = o.out[lane].roomWanted || is
	return is
}

// Full reports whether [Net.Send] would return false for a unicast packet of an adapter.
func (n *Net) Full(o *Port, p *Packet) bool {
	lane, ok := o.lane(p)
	return ok && n.full(o, lane)
}

func (n *Net) refuse(o *Port, p *Packet) bool {
	o.state.Counters.XmitDiscards++
	n.lose(p)
	return true
}

// tooLong reports whether a packet exceeds the MTU of the link (section 7.7.8).
func (o *Port) tooLong(p *Packet) bool {
	return len(p.bytes) > 128<<min(o.state.MTU.Neighbor, 5)+headerRoom
}

// headerRoom is by how many bytes a packet, LRH to ICRC, may exceed the MTU (section 7.7.8).
const headerRoom = 124

// owns reports whether a LID is one of the port's.
func (o *Port) owns(lid uint16) bool {
	a := &o.state.Address
	return a.LID != 0 && lid>>a.LMC == a.LID>>a.LMC
}

// hasCredit reports whether a lane has credits for the packet at its head (section 7.9.4.4).
func (o *Port) hasCredit(lane uint8) bool {
	l := &o.out[lane]
	return (l.fccl-l.fctbs-l.head().blocks)&creditMask <= maxBuffer
}

// creditMask is the range of the flow control counters: 12 bits.
const creditMask = 0xfff

// sendable returns the data lanes that have a packet and credits for it.
func (o *Port) sendable() uint32 {
	ready := uint32(0)
	for busy := o.busy & dataLanes; busy != 0; busy &= busy - 1 {
		lane := uint8(bits.TrailingZeros32(busy))
		if o.hasCredit(lane) {
			ready |= 1 << lane
		}
	}
	return ready
}

// choose returns the lane that sends next. Management has no credits and goes first (section 7.6.9).
func (n *Net) choose(o *Port) (uint8, bool) {
	if o.busy == 0 || !o.up {
		return 0, false
	}
	if o.busy&(1<<managementLane) != 0 {
		return managementLane, true
	}
	if o.state.Link.Logical == node.Active {
		if ready := o.sendable(); ready != 0 {
			if lane, ok := o.arbitrate(ready); ok {
				n.countWait(o)
				return lane, true
			}
		}
	}
	if o.busy&dataLanes != 0 {
		if o.waitSince == 0 {
			o.waitSince = n.now
		}
	}
	return 0, false
}

// countWait adds the time that a port has waited for credits to PortXmitWait.
func (n *Net) countWait(o *Port) {
	if o.waitSince != 0 {
		o.state.Counters.XmitWait += uint64((n.now - o.waitSince) / node.WaitTick)
		o.waitSince = 0
	}
}

// CountWaits brings PortXmitWait of a node's ports up to date, including waits that have not ended.
func (n *Net) CountWaits(now clock.Time, nd *Node) {
	n.advance(now)
	for _, o := range nd.ports {
		if o.waitSince != 0 {
			ticks := (n.now - o.waitSince) / node.WaitTick
			o.state.Counters.XmitWait += uint64(ticks)
			o.waitSince += ticks * node.WaitTick
		}
	}
}

// serve sends the packets that a port can send now, at most budget. It returns how much of the budget it used.
func (n *Net) serve(o *Port, budget int) int {
	n.sendCredits(o)
	used := 0
	for o.tx == nil {
		if used == budget {
			n.markReady(o)
			break
		}
		lane := uint8(loopLane)
		if !o.loops() {
			var ok bool
			if o.remote {
				n.announceFrames(o)
				break
			} else if lane, ok = n.choose(o); !ok {
				break
			}
		}
		used++
		p := n.nextToSend(o, lane)
		if p == nil {
			continue
		}
		if o.psPerByte == 0 {
			n.sent(o, p)
			continue
		}
		o.tx = p
		bytes := int64(len(p.bytes) + ib.VCRCLen)
		n.timers.set(&o.timers[txTimer], n.now+clock.Time((bytes*o.psPerByte+999)/1000))
	}
	if o.busy&dataLanes != 0 {
		n.expireLater(o)
	}
	return max(used, 1)
}

// nextToSend removes the next packet from a lane. It returns nil if the packet is not sent now: it was too old, and is
// discarded, or others are to overtake it.
func (n *Net) nextToSend(o *Port, lane uint8) *Packet {
	p := n.dequeue(o, lane)
	if n.tooOld(o, p) {
		o.state.Counters.XmitDiscards++
		n.lose(p)
		return nil
	}
	o.out[lane].discards = 0
	if c := o.cable; c != nil && c.reorder > 0 && lane < managementLane && n.holdBack(o, p) {
		return nil
	}
	return p
}

// dataLanes is the set of lanes with credits.
const dataLanes = 1<<managementLane - 1

// announceFrames wakes the owner of a remote cable if the port has frames to send.
func (n *Net) announceFrames(o *Port) {
	if o.up && (o.credits.due != 0 || o.busy&^(1<<loopLane) != 0) {
		n.wake(o, Frames)
	}
}

// loops reports whether the port can send a packet to itself: there is one, and room for it.
func (o *Port) loops() bool {
	l := &o.out[loopLane]
	if l.n == 0 {
		return false
	}
	in := &o.in[loopLane]
	return in.used+l.head().blocks <= in.size
}

// txDone ends the transmission of a packet on a paced link.
func (n *Net) txDone(o *Port) {
	p := o.tx
	o.tx = nil
	n.sent(o, p)
	n.markReady(o)
}

// sent carries a packet that has left a port to the other end of the link.
func (n *Net) sent(o *Port, p *Packet) {
	if p.lane == loopLane {
		n.releaseBuffer(p)
		n.arriveOwn(o, p)
		return
	}
	n.count(o, p)
	n.releaseBuffer(p)
	if n.record != nil {
		n.recordPacket(o, p)
	}
	n.carry(o, p)
}

// count updates the counters for a packet that leaves by the link.
func (n *Net) count(o *Port, p *Packet) {
	c := &o.state.Counters
	c.XmitPkts++
	c.XmitData += uint64(len(p.bytes) / 4)
	if multicast(p.dlid()) {
		c.MulticastXmit++
	} else {
		c.UnicastXmit++
	}
	if p.lane != managementLane {
		c.LanePkts++
		l := &o.out[p.lane]
		l.fctbs = (l.fctbs + p.blocks) & creditMask
	}
	o.credits.changed = true
}
