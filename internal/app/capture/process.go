// SPDX-License-Identifier: Apache-2.0

package capture

import (
	"fmt"
	"time"

	"github.com/ramjet-rdma/ramjet/internal/core/observe"
	"github.com/ramjet-rdma/ramjet/wire/ib"
)

// maxKept is more than any packet has, in bytes.
const maxKept = 1 << 17

// fabrics are the fabrics of packets that a process kept, by their encapsulation on the wire.
var fabrics = map[observe.Wire]Fabric{observe.RoCEv2: RoCEv2, observe.RoCEv1: RoCEv1, observe.InfiniBand: InfiniBand,
	observe.IWARP: IWARP}

// FromProcess hands over packets that a process has kept of a queue pair: their headers. It is as [ReadFrom] for a
// file.
func FromProcess(kept *observe.Packets, to func(*Packet)) (Counts, error) {
	fabric, ok := fabrics[kept.Wire]
	if !ok && len(kept.Packets) > 0 {
		return Counts{}, fmt.Errorf("the process sent packets of a kind that is not known: %d", kept.Wire)
	}
	d := NewDecoder()
	d.to = to
	var stream connection // of iWARP
	for i := range kept.Packets {
		k := &kept.Packets[i]
		if k.Length < len(k.Head) || k.Length > maxKept {
			return d.Counts, fmt.Errorf("packet %d has %d bytes, of which %d were kept", i+1, k.Length, len(k.Head))
		}
		d.Counts.Frames++
		p := &d.packet
		*p = Packet{Frame: i + 1, At: time.Unix(0, k.At).UTC(), Fabric: fabric, Direction: Inbound, Comment: k.Comment,
			Wire: k.Length, From: hostOf(fabric, &k.Peer), To: hostOf(fabric, &k.Local), FromPort: k.Peer.Port,
			ToPort: k.Local.Port}
		if k.Sent {
			p.Direction = Outbound
			p.From, p.To, p.FromPort, p.ToPort = p.To, p.From, p.ToPort, p.FromPort
		}
		if fabric == IWARP {
			d.segment(&stream, k, p)
			continue
		}
		d.transport(k.Head, k.Length, p, func([]byte) bool { return true })
	}
	return d.Counts, nil
}

// SenderOf returns the host that has sent a packet which a process has kept.
func SenderOf(kept *observe.Packets, packet int) Host {
	k := &kept.Packets[packet]
	if k.Sent {
		return hostOf(fabrics[kept.Wire], &k.Local)
	}
	return hostOf(fabrics[kept.Wire], &k.Peer)
}

// hostOf returns an end of a packet's way.
func hostOf(f Fabric, e *observe.Address) Host {
	if f == InfiniBand && e.LID != 0 {
		return Host{LID: e.LID}
	}
	return Host{Addr: ib.GID(e.GID).Addr().Unmap()}
}

// segment hands over a DDP segment. Bytes that were not kept are zeros.
func (d *Decoder) segment(c *connection, k *observe.Packet, p *Packet) {
	p.Missing = k.Length - len(k.Head)
	d.zeros = append(append(d.zeros[:0], k.Head...), make([]byte, p.Missing)...)
	side := 1
	if k.Sent {
		side = 0
	}
	it := d.newItem(c, side, Segment, p)
	if !it.Header.Decode(d.zeros) || it.Header.Len() > len(k.Head) || !plausible(&it.Header) {
		it.Kind = MalformedStream
	} else {
		it.Body = d.zeros[it.Header.Len():]
	}
	d.emit(p)
}
