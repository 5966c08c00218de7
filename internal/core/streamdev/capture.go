// SPDX-License-Identifier: Apache-2.0

package streamdev

import (
	"time"

	"github.com/ramjet-rdma/ramjet/internal/core/observe"
	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/wire/ib"
	"github.com/ramjet-rdma/ramjet/wire/iwarp"
)

// CapturePackets implements observe.PacketSource. Only streams of bytes have packets.
func (d *Device) CapturePackets(n verbs.QPN, r *observe.Ring) error {
	if !d.carrier.Bytes() {
		return &verbs.OpError{Op: "keep_packets", Err: verbs.ErrNotSupported,
			Detail: "shared memory has no packets: each side works in the other's memory"}
	}
	if r != nil {
		r.Wire = observe.IWARP
	}
	return d.CaptureQP(n, r)
}

// segmentCapture returns the function that adds DDP segments of a connection to a ring; nil if there is none.
func (c *Conn) segmentCapture() func(sent bool, h iwarp.Header, body []byte, n int) {
	if c.qp.Capture.Load() == nil {
		return nil
	}
	return c.captureSegment
}

func (c *Conn) captureSegment(sent bool, h iwarp.Header, body []byte, n int) {
	r := c.qp.Capture.Load()
	if r == nil {
		return
	}
	var room [128]byte
	head := h.Append(room[:0])
	length := len(head) + n
	if h.Opcode.Fixed() != 0 || h.Opcode == iwarp.OpTerminate { // no payload
		head = append(head, body[:min(len(body), len(room)-len(head))]...)
	}
	comment := ""
	if l, ok := c.link.(*faultyLink); ok && !sent {
		comment = l.taken.Comment()
	}
	local, peer := c.link.LocalAddr(), c.link.PeerAddr()
	r.Add(&observe.Packet{At: time.Now().UnixNano(), Sent: sent, Length: length, Head: head, Comment: comment,
		Local: observe.Address{GID: ib.GIDFromAddr(local.Addr()), Port: local.Port()},
		Peer:  observe.Address{GID: ib.GIDFromAddr(peer.Addr()), Port: peer.Port()}})
}

// captured returns how many segments were captured.
func (c *Conn) captured() uint64 {
	if r := c.qp.Capture.Load(); r != nil {
		return r.Seen()
	}
	return 0
}

// commentSent gives the segments captured since then a comment if faults have struck the write that they left by.
func (c *Conn) commentSent(seen uint64) {
	l, ok := c.link.(*faultyLink)
	if !ok || l.left == 0 {
		return
	}
	if r := c.qp.Capture.Load(); r != nil {
		r.Comment(seen, l.left.Comment())
	}
}
