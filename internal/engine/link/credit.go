// SPDX-License-Identifier: Apache-2.0

package link

import (
	"fmt"
	"math/bits"

	"github.com/ramjet-rdma/ramjet/internal/base/clock"
	"github.com/ramjet-rdma/ramjet/internal/engine/node"
	"github.com/ramjet-rdma/ramjet/wire/ib"
)

// Flow control (section 7.9.4.4). The receiver of a lane counts the blocks that arrive (ABR), and advertises the
// count up to which it has room: FCCL is ABR plus the free blocks of its buffer. The sender counts the blocks
// that it sends (FCTBS), and stops before it exceeds FCCL. It sends FCTBS too, which the receiver copies to ABR:
// so the credits of a lost packet come back.

// inLane is the receive buffer of a lane, in blocks of 64 bytes.
type inLane struct {
	size       uint16
	used       uint16
	abr        uint16 // adjusted blocks received since the link came up
	advertised uint16 // FCCL as last sent to the other end
}

// creditUpdates are the flow control packets that a port has yet to send.
type creditUpdates struct {
	due     uint16 // lanes whose credits are to be sent
	held    uint16 // lanes whose credits are withheld, see [Net.HoldCredits]
	changed bool   // something was sent or received since the last refresh
	idle    uint8  // refreshes in a row without a change
}

// fccl is FCCL: the count of blocks up to which the sender may send.
func (l *inLane) fccl() uint16 { return (l.abr + l.size - l.used) & creditMask }

// HoldCredits makes a port withhold the credits of a data lane, so that its senders soon stop, or grant them
// again. It simulates a receiver that has stopped.
func (n *Net) HoldCredits(now clock.Time, q *Port, vl int, hold bool) error {
	if vl < 0 || vl >= node.DataVLs {
		return fmt.Errorf("link: virtual lane %d: those with credits are 0 to %d", vl, node.DataVLs-1)
	}
	n.advance(now)
	q.credits.held &^= 1 << vl
	if hold {
		q.credits.held |= 1 << vl
	}
	n.creditChanged(q, uint8(vl))
	return nil
}

// HeldLanes returns the lanes whose credits a port withholds.
func (p *Port) HeldLanes() (lanes []int) {
	for vl := range node.DataVLs {
		if p.credits.held&(1<<vl) != 0 {
			lanes = append(lanes, vl)
		}
	}
	return lanes
}

// updateDue reports whether to send new credits: the other end has at most half a buffer left.
func (l *inLane) updateDue() bool {
	left := (l.advertised - l.abr) & creditMask
	if left > maxBuffer {
		left = 0 // the sender is beyond the advertised credits
	}
	return left <= l.size/2 && l.fccl() != l.advertised
}

// releaseBuffer frees the space of a packet in its receive buffer.
func (n *Net) releaseBuffer(p *Packet) {
	if h := p.hold; h != nil {
		p.hold = nil
		if h.holds--; h.holds > 0 {
			return
		}
		n.releaseBuffer(h)
		n.free(h)
		return
	}
	q := p.in
	if q == nil {
		return
	}
	p.in = nil
	q.in[p.inLane].used -= p.blocks
	n.creditChanged(q, p.inLane)
}

// creditChanged updates the sender's credits after the free space of a lane of port q has changed.
func (n *Net) creditChanged(q *Port, lane uint8) {
	switch {
	case lane == managementLane:
	case lane == loopLane:
		if q.out[loopLane].n > 0 {
			n.markReady(q)
		}
	case !q.up, lane < managementLane && q.credits.held&(1<<lane) != 0:
	case q.direct:
		n.setPeerCredit(q, lane)
	case q.in[lane].updateDue():
		q.credits.due |= 1 << lane
		n.markReady(q)
	}
}

// setPeerCredit sets the credits at the other end of a direct link.
func (n *Net) setPeerCredit(q *Port, lane uint8) {
	o := q.peer
	o.out[lane].fccl = q.in[lane].fccl()
	if o.busy&(1<<lane) != 0 {
		n.markReady(o)
	}
}

// sendCredits sends the flow-control packets that are due.
func (n *Net) sendCredits(q *Port) {
	for q.credits.due != 0 && q.cable != nil && q.up {
		n.carryFlowControl(q, n.nextFlowControl(q))
	}
}

// nextFlowControl returns the next flow-control packet that is due.
func (n *Net) nextFlowControl(q *Port) ib.FlowControl {
	lane := uint8(bits.TrailingZeros16(q.credits.due))
	q.credits.due &^= 1 << lane
	in := &q.in[lane]
	if q.credits.held&(1<<lane) == 0 {
		in.advertised = in.fccl()
	}
	f := ib.FlowControl{FCTBS: q.out[lane].fctbs, VL: lane, FCCL: in.advertised}
	if q.state.Link.Logical == node.Initialize {
		f.Op = ib.FlowControlInit
	}
	return f
}

// handleFlowControl handles a flow control packet received at port q.
func (n *Net) handleFlowControl(q *Port, b []byte) {
	var f ib.FlowControl
	c := &q.state.Counters
	if !f.Decode(b) || f.Op > ib.FlowControlInit {
		c.SymbolErrors++
		c.RcvErrors++
		return
	}
	if !q.up || f.VL == managementLane {
		return
	}
	in, out := &q.in[f.VL], &q.out[f.VL]
	if in.abr != f.FCTBS || out.fccl != f.FCCL {
		q.credits.changed = true
	}
	in.abr = f.FCTBS
	out.fccl = f.FCCL
	if q.busy&(1<<f.VL) != 0 {
		n.markReady(q)
	}
	n.creditChanged(q, f.VL)
}

// refreshCredits repeats the flow control packets of a link on which they can be lost.
func (n *Net) refreshCredits(q *Port) {
	q.credits.due |= q.lanes()
	n.markReady(q)
	if q.credits.changed {
		q.credits.idle, q.credits.changed = 0, false
	} else if q.credits.idle < idleMax {
		q.credits.idle++
	}
	n.timers.set(&q.timers[refreshTimer], n.now+n.refreshInterval(q))
}

// refreshInterval returns the time between flow control packets: 65,536 symbols (section 7.9.4.3) on paced links.
// It grows while nothing changes.
func (n *Net) refreshInterval(q *Port) clock.Time {
	t := n.cfg.Refresh
	if mbps := q.state.Link.SpeedActive.Mbps(); q.psPerByte > 0 && mbps > 0 {
		t = max(1, clock.Time(65536*8000/mbps))
	}
	if q.credits.idle > idleThreshold {
		t <<= q.credits.idle - idleThreshold
	}
	return t
}

// After idleThreshold refreshes without a change the interval doubles with each, up to idleMax.
const (
	idleThreshold = 16
	idleMax       = 24
)
