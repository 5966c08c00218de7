// SPDX-License-Identifier: Apache-2.0

package packetdev

import (
	"time"

	"github.com/ramjet-rdma/ramjet/internal/core/observe"
	"github.com/ramjet-rdma/ramjet/internal/engine/ibta"
	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/wire/ib"
)

// CapturePackets implements observe.PacketSource.
func (d *Device) CapturePackets(n verbs.QPN, r *observe.Ring) error {
	for port := 1; r != nil && port <= d.Attr.Ports; port++ {
		info := d.port.Info(port)
		end := observe.Address{LID: info.LID}
		if len(info.GIDTable) > 0 {
			end.GID = info.GIDTable[0].GID
			r.Wire = wireOf(info.GIDTable[0].Type)
		}
		r.Locals = append(r.Locals, end)
	}
	return d.CaptureQP(n, r)
}

// wireOf returns the format of packets between GIDs of a type.
func wireOf(t verbs.GIDType) observe.Wire {
	switch t {
	case verbs.GIDRoCEv1:
		return observe.RoCEv1
	case verbs.GIDInfiniBand:
		return observe.InfiniBand
	}
	return observe.RoCEv2
}

// captureSent adds the packets of the batch from number from on to the ring of q, which made them, before
// they are sent.
func (l *lane) captureSent(q *qp, from int) {
	r := q.Capture.Load()
	if r == nil || l.impaired != nil { // which adds them itself
		return
	}
	now := time.Now().UnixNano()
	for i := from; i < l.progress.batch.Len(); i++ {
		captureOfBatch(r, l.progress.batch, i, now, "")
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
