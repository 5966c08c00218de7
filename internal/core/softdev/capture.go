// SPDX-License-Identifier: Apache-2.0

package softdev

import (
	"fmt"
	"time"

	"github.com/ramjet-rdma/ramjet/internal/core/observe"
	"github.com/ramjet-rdma/ramjet/internal/engine/ibta"
	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/wire/ib"
	"github.com/ramjet-rdma/ramjet/wire/iwarp"
)

// capture adds a queue pair's packets to a ring from now on; nil: to none.
func (d *Device) capture(n verbs.QPN, r *observe.Ring) error {
	d.view.Lock()
	defer d.view.Unlock()
	q := d.qps[n]
	if q == nil {
		return &verbs.OpError{Op: "keep_packets", Err: verbs.ErrInvalid, Detail: fmt.Sprintf("there is no queue pair %d", n)}
	}
	q.common().capture.Store(r)
	return nil
}

// CapturePackets implements observe.PacketSource.
func (d *PacketDevice) CapturePackets(n verbs.QPN, r *observe.Ring) error {
	for port := 1; r != nil && port <= d.attr.Ports; port++ {
		info := d.port.Info(port)
		end := observe.Address{LID: info.LID}
		if len(info.GIDTable) > 0 {
			end.GID = info.GIDTable[0].GID
			r.Wire = wireOf(info.GIDTable[0].Type)
		}
		r.Locals = append(r.Locals, end)
	}
	return d.capture(n, r)
}

// wireOf returns what packets between GIDs of a type look like.
func wireOf(t verbs.GIDType) observe.Wire {
	switch t {
	case verbs.GIDRoCEv1:
		return observe.RoCEv1
	case verbs.GIDInfiniBand:
		return observe.InfiniBand
	}
	return observe.RoCEv2
}

// CapturePackets implements observe.PacketSource. Only streams of bytes have packets.
func (d *StreamDevice) CapturePackets(n verbs.QPN, r *observe.Ring) error {
	if _, ok := d.carrier.(*byteCarrier); !ok {
		return &verbs.OpError{Op: "keep_packets", Err: verbs.ErrNotSupported, Detail: "shared memory has no packets: each side works in the other's memory"}
	}
	if r != nil {
		r.Wire = observe.IWARP
	}
	return d.capture(n, r)
}

// captureSent adds the packets of the batch from number from on to the ring of q, which made them, before
// they are sent.
func (d *PacketDevice) captureSent(q *packetQP, from int) {
	r := q.capture.Load()
	if r == nil || d.impaired != nil { // which adds them itself
		return
	}
	now := time.Now().UnixNano()
	for i := from; i < d.progress.batch.Len(); i++ {
		captureOfBatch(r, d.progress.batch, i, now, "")
	}
}

// captureOfBatch adds a packet of a batch.
func captureOfBatch(r *observe.Ring, b *ibta.Batch, i int, now int64, comment string) {
	head := b.Packet(i).Head
	head = head[:min(len(head), ib.Opcode(head[0]).Info().HeaderLen)]
	capturePacket(r, &b.To.Key, &observe.Packet{
		At: now, Sent: true, Length: b.PacketSize(i), Head: head, Comment: comment,
	})
}

// captureReceived adds a received packet.
func captureReceived(r *observe.Ring, p *ib.Packet, from *ibta.Arrival) {
	var room [128]byte
	head := p.AppendHeader(room[:0])
	length := len(head) + len(p.Payload) + int(p.PadCount) + ib.ICRCLen
	capturePacket(r, &from.From, &observe.Packet{
		At: time.Now().UnixNano(), Length: length, Head: head, Comment: from.Comment,
	})
}

// capturePacket adds a packet to or from a peer.
func capturePacket(r *observe.Ring, peer *ibta.PathKey, p *observe.Packet) {
	p.Peer = observe.Address{GID: peer.GID, LID: peer.LID}
	if i := int(peer.Port) - 1; i >= 0 && i < len(r.Locals) {
		p.Local = r.Locals[i]
	}
	r.Add(p)
}

// segmentCapture returns what adds DDP segments of a connection to a ring; nil if there is none.
func (c *conn) segmentCapture() func(sent bool, h iwarp.Header, body []byte, n int) {
	if c.qp.capture.Load() == nil {
		return nil
	}
	return c.captureSegment
}

func (c *conn) captureSegment(sent bool, h iwarp.Header, body []byte, n int) {
	r := c.qp.capture.Load()
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
		Local: observe.Address{GID: ib.GIDFromAddr(local.Addr()), Port: local.Port()}, Peer: observe.Address{GID: ib.GIDFromAddr(peer.Addr()), Port: peer.Port()}})
}

// captured returns how many segments were captured.
func (c *conn) captured() uint64 {
	if r := c.qp.capture.Load(); r != nil {
		return r.Seen()
	}
	return 0
}

// commentSent gives those captured since then a comment if faults have struck the write that they left by.
func (c *conn) commentSent(seen uint64) {
	l, ok := c.link.(*faultyLink)
	if !ok || l.left == 0 {
		return
	}
	if r := c.qp.capture.Load(); r != nil {
		r.Comment(seen, l.left.Comment())
	}
}
