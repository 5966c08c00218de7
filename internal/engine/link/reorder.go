// SPDX-License-Identifier: Apache-2.0

package link

import (
	"fmt"
	"slices"

	"github.com/ramjet-rdma/ramjet/internal/base/clock"
)

// latePacket is a packet that a port holds back, so that others overtake it. It has no credits yet, and keeps its
// place in the receive buffer that it came in by.
type latePacket struct {
	when   clock.Time
	packet *Packet
}

// SetReorder has the ports of a cable hold back each packet of a data lane with a probability, for up to most
// nanoseconds. Later packets overtake it. A link of hardware keeps the order; a fabric with adaptive routing does not.
func (n *Net) SetReorder(now clock.Time, c *Cable, share float64, most clock.Time) error {
	switch {
	case !(share >= 0 && share <= 1):
		return fmt.Errorf("link: %g of packets are reordered: it is a share, from 0 to 1", share)
	case most < 0:
		return fmt.Errorf("link: packets are held back for %d ns, which is negative", most)
	}
	n.advance(now)
	c.reorder, c.holdBack = share, most
	return nil
}

// holdBack reports whether a packet that is about to leave a port waits, and others overtake it. As many wait as a
// lane queues.
func (n *Net) holdBack(o *Port, p *Packet) bool {
	if p.overtaken {
		p.overtaken = false // it may be held back again at the next port
		return false
	}
	if len(o.late) >= n.cfg.SendQueue || !n.random.chance(o.cable.reorder) {
		return false
	}
	p.overtaken = true
	l := latePacket{n.now + 1 + n.random.upTo(o.cable.holdBack), p}
	i := len(o.late)
	for i > 0 && o.late[i-1].when > l.when {
		i--
	}
	o.late = slices.Insert(o.late, i, l)
	n.timers.set(&o.timers[lateTimer], o.late[0].when)
	return true
}

// sendLate queues the packets again that were held back for long enough.
func (n *Net) sendLate(o *Port) {
	for len(o.late) > 0 && o.late[0].when <= n.now {
		p := o.late[0].packet
		o.late = slices.Delete(o.late, 0, 1)
		from := 0
		if p.in != nil {
			from = p.in.num
		}
		n.enqueue(o, p.lane, from, p)
	}
	if len(o.late) > 0 {
		n.timers.set(&o.timers[lateTimer], o.late[0].when)
	}
}

// flushLate discards the packets that a port holds back.
func (n *Net) flushLate(o *Port) {
	for _, l := range o.late {
		o.state.Counters.XmitDiscards++
		n.lose(l.packet)
	}
	o.late = nil
	n.timers.stop(&o.timers[lateTimer])
}
