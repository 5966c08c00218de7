// SPDX-License-Identifier: Apache-2.0

package roce1

import (
	"time"

	"github.com/ramjet-rdma/ramjet/internal/engine/ibta"
	"github.com/ramjet-rdma/ramjet/trace"
	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/wire/ib"
)

// receiver is the receiving half of a port.
type receiver struct {
	groups  map[verbs.GID]bool // that the device is a member of
	sources map[pair]*source
	last    *source
	frame   frame
	packet  ib.Packet
	arrival ibta.Arrival
	header  header // of the arrival
}

// pair is the GIDs of a packet, source first: its GRH from byte 8 on.
type pair [2 * len(verbs.GID{})]byte

// source is the cached state of packets between two GIDs.
type source struct {
	pair   pair
	stream stream
}

// header is the GRH of a received packet.
type header [ib.GRHLen]byte

// AppendGRH appends it.
func (h *header) AppendGRH(b []byte) []byte { return append(b, h[:]...) }

const (
	// maxReceive is how many frames one Receive handles.
	maxReceive = 64
	// maxSources limits the sources kept, whose GIDs may be forged.
	maxSources = 4096
)

func (r *receiver) init() {
	r.groups = make(map[verbs.GID]bool)
	r.sources = make(map[pair]*source)
}

// Receive delivers the packets that have been received.
func (p *port) Receive(c *ibta.Counters, deliver func(*ib.Packet, *ibta.Arrival)) (n int, err error) {
	for ; n < maxReceive; n++ {
		f, ok := p.sock.Next()
		if !ok {
			break
		}
		if f.Lost {
			c.Dropped[ibta.DropOverflow] += p.sock.Drops()
		}
		switch {
		case f.Foreign:
		case f.Cut:
			c.Dropped[ibta.DropMalformed]++
		default:
			p.take(f.Data, c, deliver)
		}
		p.sock.Release()
	}
	c.Dropped[ibta.DropOverflow] += p.loopback.lost
	p.loopback.lost = 0
	return n + p.loopback.take(func(b []byte) { p.take(b, c, deliver) }), nil
}

// take handles a frame.
func (p *port) take(b []byte, c *ibta.Counters, deliver func(*ib.Packet, *ibta.Arrival)) {
	f := &p.frame
	if !f.decode(b) {
		c.Dropped[ibta.DropMalformed]++
		return
	}
	p.arrival.Comment = ""
	p.takeFrame(f, c, deliver)
	if p.trace != nil { // with the device's comment on the packet
		p.trace.WriteEthernet(&trace.Ethernet{At: time.Now(), Direction: trace.Inbound, Comment: p.arrival.Comment},
			b[:headerLen+len(f.packet)])
	}
}

// takeFrame handles a frame that is well-formed.
func (p *port) takeFrame(f *frame, c *ibta.Counters, deliver func(*ib.Packet, *ibta.Arrival)) {
	to := f.dgid()
	if !p.id.Load().own[to] && !p.groups[to] {
		c.Dropped[ibta.DropNoDestination]++
		return
	}
	if !p.sourceOf(f).stream.verify(f.packet) {
		c.Dropped[ibta.DropICRC]++
		return
	}
	// that one gets a NAK
	if err := p.packet.Decode(f.packet[:len(f.packet)-ib.ICRCLen]); err != nil && err != ib.ErrLength {
		c.Dropped[ibta.DropMalformed]++
		return
	}
	from := f.sgid()
	if p.packet.DestQP == ib.QP1 { // which will be answered
		if _, fixed := macOf(from); !fixed {
			p.watch.Hint(from.Addr(), f.src)
		}
	}
	p.header = header(*f.grh)
	p.arrival = ibta.Arrival{From: pathKey(from), To: to, Global: true, Header: &p.header}
	deliver(&p.packet, &p.arrival)
}

// sourceOf finds the source of a frame.
func (p *port) sourceOf(f *frame) *source {
	at := pair(f.grh[8:])
	if s := p.last; s != nil && s.pair == at {
		return s
	}
	s := p.sources[at]
	if s == nil {
		if len(p.sources) >= maxSources {
			clear(p.sources)
		}
		s = &source{pair: at, stream: newStream(*f.grh)}
		p.sources[at] = s
	}
	p.last = s
	return s
}
