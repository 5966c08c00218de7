// SPDX-License-Identifier: Apache-2.0

package link

import (
	"encoding/binary"

	"github.com/ramjet-rdma/ramjet/internal/base/clock"
	"github.com/ramjet-rdma/ramjet/internal/engine/node"
	"github.com/ramjet-rdma/ramjet/wire/ib"
)

// MADLen is the length of a management datagram in bytes (section 13.4.2).
const MADLen = 256

// madPacket is the length of a packet with a management datagram, without a GRH.
const madPacket = ib.LRHLen + ib.BTHLen + ib.DETHLen + MADLen + ib.ICRCLen

// Offsets and bits in a management datagram (sections 13.4.3 and 14.2.1.2).
const (
	madClass  = 1
	madMethod = 3
	madStatus = 4
	madDrSLID = 32
	madDrDLID = 34

	responseBit   = 0x80
	directionBit  = 0x80
	classDirected = 0x81
)

// Datagram are the addresses of a management datagram.
type Datagram struct {
	SLID, DLID uint16
	SL         uint8
	Source     ib.QPN
	Dest       ib.QPN // QP0: a subnet management packet, on the management lane
	PKey       ib.PKey
	QKey       ib.QKey // of QP1: [ib.QKeyGSI]; of QP0: 0
	GRH        bool    // there is a GRH, at [ib.LRHLen] of the packet
}

// NewMAD returns a packet with a management datagram of 256 bytes, without a GRH.
func (n *Net) NewMAD(d Datagram, mad []byte) *Packet {
	p := n.Alloc(madPacket)
	h := ib.LRH{SL: d.SL, LNH: ib.LNHLocal, DLID: d.DLID, SLID: d.SLID, PktLen: madPacket / 4}
	if d.Dest == ib.QP0 {
		h.VL = managementLane
	}
	b := h.Append(p.bytes[:0])
	b = ib.BTH{Opcode: ib.UDSendOnly, PKey: d.PKey, DestQP: d.Dest}.Append(b)
	b = ib.DETH{QKey: d.QKey, SrcQP: d.Source}.Append(b)
	clear(p.bytes[len(b)+copy(p.bytes[len(b):len(b)+MADLen], mad):])
	p.NoICRC = true
	return p
}

// SendMAD sends a management datagram of 256 bytes from a port, without a GRH. False: see [Net.Send].
func (n *Net) SendMAD(now clock.Time, o *Port, d Datagram, mad []byte) bool {
	p := n.NewMAD(d, mad)
	if !n.Send(now, o, p) {
		n.free(p)
		return false
	}
	return true
}

// ReadMAD returns the management datagram in a packet, in place; false: there is none.
func ReadMAD(p *Packet) (Datagram, []byte, bool) {
	bth := p.bth()
	if bth == 0 || len(p.bytes) != bth+madPacket-ib.LRHLen || ib.Opcode(p.bytes[bth]) != ib.UDSendOnly {
		return Datagram{}, nil, false
	}
	var deth ib.DETH
	deth.Decode(p.bytes[bth+ib.BTHLen:])
	at := bth + ib.BTHLen + ib.DETHLen
	return Datagram{SLID: p.slid(), DLID: p.dlid(), SL: p.sl(), Source: deth.SrcQP, Dest: p.destQP(bth),
		PKey: p.pkey(bth), QKey: deth.QKey, GRH: p.lnh() == ib.LNHGlobal}, p.bytes[at : at+MADLen], true
}

// AttachManager makes the datagrams that accepts returns true for wait for [Net.ReceiveMAD]. It is called with
// datagrams that reach the node and that its agent does not answer.
func (n *Net) AttachManager(nd *Node, accepts func(mad []byte) bool) { nd.accepts = accepts }

// ReceiveMAD returns the oldest datagram for the node's manager, nil: none waits. [ReadMAD] reads it; it must be
// released.
func (n *Net) ReceiveMAD(nd *Node) *Packet { return nd.datagrams.pop() }

// queueMAD queues a packet for ReceiveMAD.
func (n *Net) queueMAD(q *Port, p *Packet) {
	n.releaseBuffer(p)
	if q.node.datagrams.n >= maxDatagrams {
		q.state.Counters.VL15Dropped++
		n.free(p)
		return
	}
	p.port = uint8(q.num)
	q.node.datagrams.push(p)
	n.wake(q, Datagrams)
}

// deliverManagement handles a packet on the management lane, or to queue pair 0, for the node of port q.
func (n *Net) deliverManagement(q *Port, p *Packet) {
	d, _, ok := ReadMAD(p)
	if !ok || p.inLane != managementLane || d.Dest != ib.QP0 || d.GRH || !p.icrcValid() ||
		d.DLID != node.PermissiveLID && !q.node.lidPort(q).owns(d.DLID) {
		q.state.Counters.RcvErrors++
		n.drop(p)
		return
	}
	n.handleSMP(q, q.num, p)
}

// lidPort returns the port whose LID port q is reached by: at a switch, port 0.
func (nd *Node) lidPort(q *Port) *Port {
	if nd.state.Tables != nil {
		return nd.ports[0]
	}
	return q
}

// handleSMP passes a subnet management packet to the agent of a node. It was received at port q, and in is its
// number; in is 0 if the node's own manager has sent it.
func (n *Net) handleSMP(q *Port, in int, p *Packet) {
	nd := q.node
	if nd.off {
		n.drop(p)
		return
	}
	p = n.unshare(p)
	d, mad, _ := ReadMAD(p)
	directed := mad[madClass] == classDirected
	verdict := Deliver
	if nd.agent != nil {
		verdict = nd.agent.HandleSMP(n.now, in, Route{Directed: directed, SLID: d.SLID, DLID: d.DLID, Port: q.num}, mad)
		n.agentDue(nd)
	}
	p.NoICRC = true
	switch {
	case verdict > 0 && int(verdict) < len(nd.ports):
		p.setLIDs(node.PermissiveLID, node.PermissiveLID)
		n.sendSMP(nd.ports[verdict], p)
	case verdict == Reply:
		n.replySMP(q, in, d, directed, p, mad)
	case verdict == Deliver:
		n.deliverSMP(q, p, mad)
	default:
		n.drop(p)
	}
}

// replySMP sends a response by LID. The response to a directed route goes to the LID where the route started
// (section 14.2.2.3).
func (n *Net) replySMP(q *Port, in int, d Datagram, directed bool, p *Packet, mad []byte) {
	nd := q.node
	to := d.SLID
	if directed {
		to = binary.BigEndian.Uint16(mad[madDrDLID:])
		if mad[madStatus]&directionBit != 0 {
			to = binary.BigEndian.Uint16(mad[madDrSLID:])
		}
	}
	from := nd.lidPort(q).state.Address.LID
	if d.DLID == node.PermissiveLID && !directed {
		from = d.DLID
	}
	p.setLIDs(from, to)
	switch {
	case in == 0 && !directed, nd.lidPort(q).owns(to):
		n.deliverSMP(q, p, mad)
	case nd.state.Tables == nil, to == node.PermissiveLID, d.DLID == node.PermissiveLID && !directed:
		n.sendSMP(q, p)
	default:
		out := route(nd.state.Tables, to)
		if out == 0 || int(out) >= len(nd.ports) {
			q.state.Counters.RcvSwitchRelayErrors++
			n.drop(p)
			return
		}
		n.sendSMP(nd.ports[out], p)
	}
}

// deliverSMP delivers a packet to the node's own manager, or to queue pair 0 of an adapter.
func (n *Net) deliverSMP(q *Port, p *Packet, mad []byte) {
	switch {
	case q.node.accepts != nil && q.node.accepts(mad):
		n.queueMAD(q, p)
	case q.node.state.Tables == nil:
		if p.in == nil { // sent by this port: it needs buffer space like any other
			in := &q.in[managementLane]
			if in.used+p.blocks > in.size {
				q.state.Counters.VL15Dropped++
				n.free(p)
				return
			}
			in.used += p.blocks
			p.in, p.inLane = q, managementLane
		}
		p.port = uint8(q.num)
		n.queueArrival(q, p)
	default:
		n.drop(p)
	}
}

func (p *Packet) setLIDs(slid, dlid uint16) {
	binary.BigEndian.PutUint16(p.bytes[2:], dlid)
	binary.BigEndian.PutUint16(p.bytes[6:], slid)
}

// sendSMP sends a subnet management packet from a port.
func (n *Net) sendSMP(o *Port, p *Packet) {
	from := 0
	if p.in != nil {
		from = p.in.num
	}
	if !o.up || o.node.state.Tables == nil && from != 0 && o.out[managementLane].n >= maxDatagrams ||
		from == 0 && o.out[managementLane].queueLen(0) >= maxDatagrams {
		o.state.Counters.XmitDiscards++
		n.drop(p)
		return
	}
	n.enqueue(o, managementLane, from, p)
}

// sendManagement sends a packet from a port on the management lane. The node's agent first handles packets for the
// node itself, and packets that start a directed route (section 14.2.2).
func (n *Net) sendManagement(o *Port, p *Packet) {
	d, _, ok := ReadMAD(p)
	if !ok || d.Dest != ib.QP0 || d.GRH {
		n.refuse(o, p)
		return
	}
	p.in, p.inLane = nil, managementLane
	_, mad, _ := ReadMAD(p)
	switch {
	case mad[madClass] == classDirected && d.DLID == node.PermissiveLID, o.owns(d.DLID):
		n.handleSMP(o, 0, p)
	case o.num == 0:
		n.sendFromSwitch(o, d.DLID, p)
	default:
		n.sendSMP(o, p)
	}
}

// deliverDatagram passes a datagram to queue pair 1 to the node's agent or manager; false: it is for neither.
func (n *Net) deliverDatagram(q *Port, p *Packet, bth int) bool {
	_, mad, ok := ReadMAD(p)
	if !ok {
		return false
	}
	nd := q.node
	if mad[madMethod]&responseBit == 0 && nd.agent != nil && p.icrcValid() {
		if p.store != p || p.refs > 1 {
			p = n.unshare(p)
			_, mad, _ = ReadMAD(p)
		}
		n.CountWaits(n.now, nd)
		if nd.agent.HandleGMP(n.now, q.num, mad) {
			n.replyDatagram(q, p)
			return true
		}
	}
	if nd.accepts != nil && nd.accepts(mad) && p.icrcValid() {
		n.queueMAD(q, p)
		return true
	}
	return false
}

// replyDatagram sends a datagram back to its sender.
func (n *Net) replyDatagram(q *Port, p *Packet) {
	o := q.node.lidPort(q)
	p.Reverse()
	if multicast(p.slid()) {
		p.setLIDs(o.state.Address.LID, p.dlid())
	}
	n.releaseBuffer(p)
	if !n.Send(n.now, o, p) {
		n.refuse(o, p)
	}
}

// Reverse turns a packet to queue pair 1 into one from there to its sender (section 13.5.4).
func (p *Packet) Reverse() {
	b, bth := p.bytes, p.bth()
	p.setLIDs(p.dlid(), p.slid())
	if p.lnh() == ib.LNHGlobal {
		var h ib.GRH
		h.Decode(b[ib.LRHLen:])
		h.SGID, h.DGID, h.HopLmt = h.DGID, h.SGID, 0xff
		h.Append(b[:ib.LRHLen])
	}
	var h ib.BTH
	var deth ib.DETH
	h.Decode(b[bth:])
	deth.Decode(b[bth+ib.BTHLen:])
	h.DestQP, h.PSN = deth.SrcQP, 0
	deth = ib.DETH{QKey: ib.QKeyGSI, SrcQP: ib.QP1}
	deth.Append(h.Append(b[:bth]))
	b[0] &= 15
	p.NoICRC = true
}

// AgentDue updates the timer of a node's agent, after a change was reported to the agent directly.
func (n *Net) AgentDue(nd *Node) { n.agentDue(nd) }

// agentDue sets the timer of an agent that sends traps.
func (n *Net) agentDue(nd *Node) {
	a, ok := nd.agent.(Notifier)
	if !ok {
		return
	}
	if when := a.Deadline(); when == 0 {
		n.timers.stop(&nd.timer)
	} else if when != nd.timer.when {
		n.timers.set(&nd.timer, max(when, 1))
	}
}

// sendTraps sends the traps of an agent that are due.
func (n *Net) sendTraps(nd *Node) {
	a, ok := nd.agent.(Notifier)
	if !ok {
		return
	}
	for range burst {
		var smp [MADLen]byte
		num, dlid, sl, ok := a.NextTrap(n.now, smp[:])
		if !ok || num < 0 || num >= len(nd.ports) || nd.ports[num] == nil {
			break
		}
		o := nd.ports[num]
		n.SendMAD(n.now, o, Datagram{SLID: o.state.Address.LID, DLID: dlid, SL: sl, PKey: ib.DefaultPKey}, smp[:])
	}
	n.agentDue(nd)
}
