// SPDX-License-Identifier: Apache-2.0

package infiniband

import (
	"encoding/binary"

	"github.com/ramjet-rdma/ramjet/internal/core/fabric"
	"github.com/ramjet-rdma/ramjet/internal/engine/ibta"
	"github.com/ramjet-rdma/ramjet/wire/ib"
)

// receiver is the receiving half of a port.
type receiver struct {
	arrivals [32]fabric.Arrival
	packet   ib.Packet
	arrival  ibta.Arrival
	header   header   // of the arrival
	drops    keyDrops // as counted when watchKeys looked last
}

// minArrival is the length of the shortest packet with a transport header, whose other lengths follow from its headers.
const minArrival = ib.LRHLen + ib.BTHLen + ib.ICRCLen

// header is the GRH of a packet.
type header struct{ ib.GRH }

// AppendGRH appends the GRH as received.
func (h *header) AppendGRH(b []byte) []byte { return h.Append(b) }

// Receive delivers the packets that the adapter has received.
func (p *port) Receive(c *ibta.Counters, deliver func(*ib.Packet, *ibta.Arrival)) (int, error) {
	if !p.Ready() {
		return 0, nil
	}
	n, err := p.adapter.Receive(p.arrivals[:])
	got := p.arrivals[:n]
	reported := p.drops.reported
	p.drops = keyDropsOf(c)
	p.drops.reported = reported
	for _, a := range got {
		if why := p.take(&a, deliver); why != ibta.Taken {
			c.Dropped[why]++
		}
		p.watchKeys(c, &a)
	}
	if n > 0 {
		p.adapter.Release(got)
		clear(got)
	}
	return n, err
}

// take delivers a packet, or returns why it cannot.
func (p *port) take(a *fabric.Arrival, deliver func(*ib.Packet, *ibta.Arrival)) ibta.Reason {
	b := a.Packet.Bytes()
	if len(b) < minArrival {
		return ibta.DropMalformed
	}
	p.arrival.Comment = ""
	r := p.takeBytes(a, b, deliver)
	p.tracer.received(a, p.arrival.Comment)
	return r
}

// takeBytes takes the bytes of a packet that has all headers, from the LRH to the ICRC.
func (p *port) takeBytes(a *fabric.Arrival, b []byte, deliver func(*ib.Packet, *ibta.Arrival)) ibta.Reason {
	end := len(b) - ib.ICRCLen
	if !a.Packet.NoICRC {
		if crc, ok := ib.LocalICRC(b[:end]); !ok || crc != binary.LittleEndian.Uint32(b[end:]) {
			return ibta.DropICRC
		}
	}
	var lrh ib.LRH
	lrh.Decode(b)
	from := &p.arrival
	i := p.adapter.Info(a.Port)
	*from = ibta.Arrival{From: ibta.PathKey{LID: lrh.SLID, Port: uint8(a.Port)}, SL: lrh.SL,
		PathBits: uint8(lrh.DLID & (1<<i.LMC - 1))}
	at := ib.LRHLen
	if lrh.LNH == ib.LNHGlobal {
		if end < at+ib.GRHLen {
			return ibta.DropMalformed
		}
		p.header.Decode(b[at:])
		at += ib.GRHLen
		if p.header.IPVer != 6 || p.header.NxtHdr != ib.GRHNextHeader { // section 8.3
			return ibta.DropMalformed
		}
		from.Global, from.From.GID, from.To, from.Header = true, p.header.SGID, p.header.DGID, &p.header
	}
	if err := p.packet.Decode(b[at:end]); err != nil && err != ib.ErrLength { // that one gets a NAK
		return ibta.DropMalformed
	}
	deliver(&p.packet, from)
	return ibta.Taken
}
