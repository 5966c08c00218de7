// SPDX-License-Identifier: Apache-2.0

package link

import (
	"fmt"

	"github.com/ramjet-rdma/ramjet/internal/base/clock"
	"github.com/ramjet-rdma/ramjet/internal/engine/node"
	"github.com/ramjet-rdma/ramjet/wire/ib"
)

// Cable connects two ports of the network.
type Cable struct {
	ports       [2]*Port
	delay       clock.Time
	errorRate   float64    // probability that a bit is flipped
	bitsToError int64      // bits until the next flipped one
	packetRate  float64    // probability that a packet of any length is corrupted
	dropIn      [2]int     // how many packets leave each of ports until one is corrupted; 0: none is
	lossy       bool       // has ever had errors, or a delay that changes: flow control packets are repeated
	reorder     float64    // probability that a packet is held back, and overtaken
	holdBack    clock.Time // for how long at most
}

// Ports returns the two ends.
func (c *Cable) Ports() (*Port, *Port) { return c.ports[0], c.ports[1] }

// Plug connects two ports with a cable that takes delay nanoseconds from end to end. The ports train: if
// they have a width and a speed in common and neither is disabled, they go to Initialize.
func (n *Net) Plug(now clock.Time, a, b *Port, delay clock.Time) (*Cable, error) {
	n.advance(now)
	for _, p := range [...]*Port{a, b} {
		switch {
		case p.num == 0:
			return nil, fmt.Errorf("link: port 0 of %q takes no cable: ports are numbered from 1",
				p.node.state.Description)
		case p.cable != nil || p.remote:
			return nil, fmt.Errorf("link: port %d of %q has a cable already: pull it first", p.num,
				p.node.state.Description)
		}
	}
	if a == b {
		return nil, fmt.Errorf("link: both ends of the cable are port %d of %q", a.num, a.node.state.Description)
	}
	if delay < 0 {
		return nil, fmt.Errorf("link: a delay of %d ns is negative", delay)
	}
	c := &Cable{ports: [2]*Port{a, b}, delay: delay}
	a.cable, a.peer = c, b
	b.cable, b.peer = c, a
	n.train(c)
	return c, nil
}

// Pull removes a cable. Packets on it, or queued at its ports, are lost.
func (n *Net) Pull(now clock.Time, c *Cable) {
	n.advance(now)
	a, b := c.ports[0], c.ports[1]
	if a.cable != c {
		return // pulled already
	}
	n.linkDown(c)
	a.cable, a.peer, b.cable, b.peer = nil, nil, nil, nil
}

// SetErrorRate flips each bit on a cable with a probability, at most 0.01. Receivers detect that by the VCRC.
func (n *Net) SetErrorRate(now clock.Time, c *Cable, perBit float64) error {
	if !(perBit >= 0 && perBit <= 0.01) {
		return fmt.Errorf("link: error rate %g is not between 0 and 0.01 per bit", perBit)
	}
	n.advance(now)
	c.errorRate = perBit
	if perBit > 0 {
		c.bitsToError = n.random.bitsToError(perBit)
		n.repeatCredits(c)
	}
	return nil
}

// SetPacketErrorRate corrupts each packet on a cable, of any length, with a probability. Receivers detect that.
func (n *Net) SetPacketErrorRate(now clock.Time, c *Cable, perPacket float64) error {
	if !(perPacket >= 0 && perPacket <= 1) {
		return fmt.Errorf("link: error rate %g is not between 0 and 1 per packet", perPacket)
	}
	n.advance(now)
	c.packetRate = perPacket
	if perPacket > 0 {
		n.repeatCredits(c)
	}
	return nil
}

// CorruptNext corrupts the nth packet, from 1 on, that port p sends from now on. Management packets do not count.
func (n *Net) CorruptNext(now clock.Time, p *Port, nth int) error {
	switch {
	case p.cable == nil:
		return fmt.Errorf("link: port %d of %q has no cable", p.num, p.node.state.Description)
	case nth < 1:
		return fmt.Errorf("link: packet %d: the next one is packet 1", nth)
	}
	n.advance(now)
	p.cable.dropIn[p.cable.end(p)] = nth
	n.repeatCredits(p.cable)
	return nil
}

// SetDelay changes how many nanoseconds a cable takes from end to end.
func (n *Net) SetDelay(now clock.Time, c *Cable, delay clock.Time) error {
	if delay < 0 {
		return fmt.Errorf("link: a delay of %d ns is negative", delay)
	}
	n.advance(now)
	c.delay = delay
	n.repeatCredits(c)
	return nil
}

// end returns which of the cable's ports p is.
func (c *Cable) end(p *Port) int {
	if c.ports[0] == p {
		return 0
	}
	return 1
}

// repeatCredits has a link repeat its flow control packets from now on.
func (n *Net) repeatCredits(c *Cable) {
	if !c.lossy {
		c.lossy = true
		n.setCreditMode(c)
	}
}

// train brings the link up, if both ends can.
func (n *Net) train(c *Cable) {
	a, b := c.ports[0], c.ports[1]
	for _, p := range c.ports {
		if p.up || p.node.off || p.state.Link.Physical == node.PhysDisabled {
			return
		}
	}
	w, s := node.Negotiate(a.state, b.state)
	if w == 0 || s == 0 {
		return
	}
	n.portUp(a, w, s)
	n.portUp(b, w, s)
	n.setCreditMode(c)
}

// setCreditMode decides how a link exchanges credits: directly if it has no delay and no errors, else by flow
// control packets, which are repeated if the link has errors.
func (n *Net) setCreditMode(c *Cable) {
	for _, p := range c.ports {
		if !p.up {
			return
		}
		p.direct = c.delay == 0 && !c.lossy
	}
	for _, p := range c.ports {
		if p.direct {
			for vl := range uint8(managementLane) {
				n.creditChanged(p, vl)
			}
			continue
		}
		p.credits.due = uint16(1)<<min(p.state.Lanes.Cap, node.DataVLs) - 1
		n.markReady(p)
		if c.lossy {
			n.timers.set(&p.timers[refreshTimer], n.now+n.refreshInterval(p))
		}
	}
}

func (n *Net) linkDown(c *Cable) {
	n.portDown(c.ports[0])
	n.portDown(c.ports[1])
}

// flight is a packet or a flow control packet in flight on a cable.
type flight struct {
	when   clock.Time // when it arrives; 0: there is none
	packet *Packet
	fc     [ib.FlowControlLen]byte // if packet is nil
}

// flights is a queue in a ring that grows as needed.
type flights struct {
	ring    []flight
	head, n int
}

func (q *flights) push(f flight) {
	if q.n == len(q.ring) {
		grown := make([]flight, max(8, 2*q.n))
		for i := range q.n {
			grown[i] = q.ring[(q.head+i)&(len(q.ring)-1)]
		}
		q.ring, q.head = grown, 0
	}
	q.ring[(q.head+q.n)&(len(q.ring)-1)] = f
	q.n++
}

func (q *flights) first() *flight {
	if q.n == 0 {
		return nil
	}
	return &q.ring[q.head]
}

func (q *flights) pop() flight {
	if q.n == 0 {
		return flight{}
	}
	f := q.ring[q.head]
	q.ring[q.head].packet = nil
	q.head = (q.head + 1) & (len(q.ring) - 1)
	q.n--
	return f
}

// carry sends a packet over the cable of port p.
func (n *Net) carry(p *Port, q *Packet) {
	c, peer := p.cable, p.peer
	if c.errorRate > 0 {
		q = n.corrupt(c, q)
	}
	if n.spoils(c, p, q) {
		q = n.unshare(q)
		q.vcrcError = true
	}
	if c.delay == 0 && peer.flights.n == 0 {
		n.arrive(peer, q, q.lane)
		return
	}
	n.launch(peer, flight{when: n.now + c.delay, packet: q})
}

// spoils reports whether a packet that port p sends is to be corrupted as a whole.
func (n *Net) spoils(c *Cable, p *Port, q *Packet) bool {
	if c.packetRate > 0 && n.random.chance(c.packetRate) {
		return true
	}
	left := &c.dropIn[c.end(p)]
	if *left == 0 || q.lane == managementLane {
		return false
	}
	*left--
	return *left == 0
}

// carryFlowControl sends a flow control packet over the cable of port p.
func (n *Net) carryFlowControl(p *Port, f ib.FlowControl) {
	c := p.cable
	var b [ib.FlowControlLen]byte
	f.Append(b[:0])
	if n.record != nil {
		n.scratch = append(n.scratch[:0], b[:]...)
		n.record(n.now, p, n.scratch)
	}
	if c.errorRate > 0 {
		n.flipBits(c, b[:])
	}
	if c.delay == 0 && p.peer.flights.n == 0 {
		n.handleFlowControl(p.peer, b[:])
		return
	}
	n.launch(p.peer, flight{when: n.now + c.delay, fc: b})
}

func (n *Net) launch(to *Port, f flight) {
	to.flights.push(f)
	if to.flights.n == 1 {
		n.timers.set(&to.timers[arrivalTimer], f.when)
	}
}

// arrivals handles the packets that have arrived at p over the cable by now.
func (n *Net) arrivals(p *Port) {
	for f := p.flights.first(); f != nil && f.when <= n.now; f = p.flights.first() {
		l := p.flights.pop()
		if l.packet != nil {
			n.arrive(p, l.packet, l.packet.lane)
		} else {
			n.handleFlowControl(p, l.fc[:])
		}
	}
	if f := p.flights.first(); f != nil {
		n.timers.set(&p.timers[arrivalTimer], f.when)
	}
}

// corrupt flips bits of a packet by the cable's error rate. Whether the receiver notices depends on the VCRC.
func (n *Net) corrupt(c *Cable, q *Packet) *Packet {
	bits := int64(len(q.bytes)+ib.VCRCLen) * 8
	if c.bitsToError >= bits {
		c.bitsToError -= bits
		return q
	}
	q = n.unshare(q)
	q.fillICRC()
	q.bytes[0] = q.lane<<4 | q.bytes[0]&15
	n.scratch = ib.AppendVCRC(append(n.scratch[:0], q.bytes...))
	n.flipBits(c, n.scratch)
	body, ok := ib.CheckVCRC(n.scratch)
	copy(q.bytes, body)
	q.vcrcError = !ok
	return q
}

// flipBits flips bits of b by the cable's error rate.
func (n *Net) flipBits(c *Cable, b []byte) {
	bits := int64(len(b)) * 8
	at := int64(0)
	for at+c.bitsToError < bits {
		at += c.bitsToError
		b[at/8] ^= 1 << (at % 8)
		at++
		c.bitsToError = n.random.bitsToError(c.errorRate)
	}
	c.bitsToError -= bits - at
}
