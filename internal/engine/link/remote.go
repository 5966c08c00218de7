// SPDX-License-Identifier: Apache-2.0

package link

import (
	"errors"
	"fmt"

	"github.com/ramjet-rdma/ramjet/internal/base/clock"
	"github.com/ramjet-rdma/ramjet/internal/engine/node"
	"github.com/ramjet-rdma/ramjet/wire/ib"
)

// MaxFrame is the length of the longest frame of [Net.NextFrame].
const MaxFrame = ib.MaxPacket + ib.VCRCLen

// RemoteUp trains a port with a cable to another process, whose other end has these widths and speeds enabled. If
// a manager takes the link down, it stays down until RemoteUp is called again. Frames may be lost, duplicated or
// reordered on the way: lost credits come back with the next flow control packet.
func (n *Net) RemoteUp(now clock.Time, p *Port, w node.Width, s node.Speed) error {
	n.advance(now)
	switch {
	case p.num == 0:
		return fmt.Errorf("link: port 0 of %q takes no cable: ports are numbered from 1", p.node.state.Description)
	case p.cable != nil || p.remote && p.up:
		return fmt.Errorf("link: port %d of %q has a cable already: pull it first", p.num, p.node.state.Description)
	}
	w, s = (w & p.state.Link.WidthEnabled).Widest(), (s & p.state.Link.SpeedEnabled).Fastest()
	if w == 0 || s == 0 {
		return errors.New("link: the ends of the cable have no width or no speed in common")
	}
	if p.state.Link.Physical == node.PhysDisabled {
		return fmt.Errorf("link: port %d of %q is disabled", p.num, p.node.state.Description)
	}
	p.remote, p.direct = true, false
	n.portUp(p, w, s)
	p.psPerByte = 0 // the other process sets the pace
	n.refreshCredits(p)
	return nil
}

// RemoteDown takes down the link of a cable to another process.
func (n *Net) RemoteDown(now clock.Time, p *Port) {
	n.advance(now)
	if !p.remote {
		return
	}
	n.portDown(p)
	p.remote = false
}

// NextFrame appends the next frame for a cable to another process to buf: a packet with its VCRC, or a flow
// control packet with its LPCRC. It returns false if there is none; [Net.Woken] reports when there may be.
func (n *Net) NextFrame(now clock.Time, o *Port, buf []byte) ([]byte, bool) {
	n.advance(now)
	if !o.remote || !o.up {
		return buf, false
	}
	if o.credits.due != 0 {
		start := len(buf)
		buf = n.nextFlowControl(o).Append(buf)
		if n.record != nil {
			n.record(n.now, o, buf[start:])
		}
		return buf, true
	}
	for {
		lane, ok := n.choose(o)
		if !ok {
			return buf, false
		}
		p := n.nextToSend(o, lane)
		if p == nil {
			continue
		}
		n.count(o, p)
		n.releaseBuffer(p)
		start := len(buf)
		buf = p.appendFrame(buf)
		if n.record != nil {
			n.record(n.now, o, buf[start:])
		}
		n.free(p)
		return buf, true
	}
}

// appendFrame appends the packet as it is on a link, with its VCRC.
func (p *Packet) appendFrame(buf []byte) []byte {
	p.fillICRC()
	start := len(buf)
	buf = append(buf, p.bytes...)
	buf[start] = p.lane<<4 | buf[start]&15
	c := ib.VCRC(buf[start:])
	return append(buf, byte(c), byte(c>>8))
}

// HandleFrame handles a frame from a cable to another process. Errors in it are counted.
func (n *Net) HandleFrame(now clock.Time, q *Port, frame []byte) {
	n.advance(now)
	if !q.remote || !q.up {
		return
	}
	if len(frame) == ib.FlowControlLen {
		n.handleFlowControl(q, frame)
		return
	}
	c := &q.state.Counters
	body, ok := ib.CheckVCRC(frame)
	if !ok || len(body) < minPacket || len(body) > ib.MaxPacket {
		c.SymbolErrors++
		c.RcvErrors++
		return
	}
	lane := body[0] >> 4
	if lane != managementLane && lane >= min(q.state.Lanes.Cap, node.DataVLs) {
		c.RcvErrors++
		return
	}
	p := n.Alloc(len(body))
	copy(p.bytes, body)
	p.blocks = blocksOf(len(body))
	n.arrive(q, p, lane)
}
