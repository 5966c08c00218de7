// SPDX-License-Identifier: Apache-2.0

package roce

import (
	"net/netip"
	"time"

	"github.com/ramjet-rdma/ramjet/internal/base/steer"
	"github.com/ramjet-rdma/ramjet/internal/engine/ibta"
	"github.com/ramjet-rdma/ramjet/internal/system/netio"
	"github.com/ramjet-rdma/ramjet/trace"
	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/wire/ib"
)

// receiver is the receiving half of a port.
type receiver struct {
	bufs    []netio.Datagrams
	width   int // how many to fill at once
	sources map[netip.AddrPort]*source
	last    *source
	packet  ib.Packet
	arrival ibta.Arrival
	header  ib.IPHeader // of the arrival
	self    verbs.GID
}

// source is the record of one sender's packets, for predicting their identification.
type source struct {
	from   netip.AddrPort
	to     netip.Addr // ours, or a group's
	key    ibta.PathKey
	pseudo ib.PseudoHeader
	counts counting
	first  uint16 // identification of the last buffer's first packet
	last   uint16 // and of its last one
}

// counting is how a sender numbers its packets over IPv4, as far as it is known. Within one send
// the numbers always count up.
type counting uint8

const (
	fromZero counting = iota // each send starts at 0: unconnected sockets
	bySend                   // each send starts one later than the one before: connected sockets
	byPacket                 // each send continues where the one before ended: rxe
)

// next predicts the identification of the next send.
func (s *source) next() uint16 {
	switch s.counts {
	case bySend:
		return s.first + 1
	case byPacket:
		return s.last + 1
	}
	return 0
}

// learn records a send whose identification was not the predicted one.
func (s *source) learn(id uint16) {
	switch {
	case id == 0:
		s.counts = fromZero
	case id == s.first+1 || s.counts == fromZero:
		s.counts = bySend
	case id == s.last+1:
		s.counts = byPacket
	}
}

// wholeTrain is the size from which buffers are taken one by one: each is then still in the
// first-level cache when its payload is verified and copied to its place.
const wholeTrain = 16 << 10

// maxSources limits the state that forged senders can cost.
const maxSources = 4096

func (r *receiver) init(local netip.AddrPort, f netio.Features) {
	r.bufs = make([]netio.Datagrams, f.Batch)
	r.width = len(r.bufs)
	r.sources = make(map[netip.AddrPort]*source)
	r.self = ib.GIDFromAddr(local.Addr())
}

// Receive takes the packets that have arrived at the socket.
func (p *port) Receive(c *ibta.Counters, deliver func(*ib.Packet, *ibta.Arrival)) (int, error) {
	n, err := p.sock.Recv(p.bufs[:p.width])
	if n > 0 {
		p.width = len(p.bufs)
		if len(p.bufs[n-1].Data) >= wholeTrain {
			p.width = 1
		}
	}
	for i := range p.bufs[:n] {
		p.take(&p.bufs[i], c, deliver)
	}
	if p.pending.Load() {
		n += p.takeForwarded(c, deliver)
	}
	return n, err
}

// take handles the datagrams of one receive buffer.
func (p *port) take(d *netio.Datagrams, c *ibta.Counters, deliver func(*ib.Packet, *ibta.Arrival)) {
	if d.Truncated {
		c.Dropped[ibta.DropMalformed]++
		return
	}
	src := p.sourceOf(d)
	dst := p.self
	if d.To.IsValid() && d.To != p.local.Addr() {
		dst = ib.GIDFromAddr(d.To)
	}
	p.header = ib.IPHeader{Src: src.key.GID, Dst: dst, TOS: d.TOS, TTL: 64, IPv4: p.local.Addr().Is4()}
	if d.HasHeaders {
		p.header.TTL = d.TTL
	}
	p.arrival = ibta.Arrival{From: src.key, To: dst, Global: true, Header: &p.header, Marked: marked(d.TOS)}
	id := src.next()
	first := true
	for data := d.Data; len(data) > 0; {
		n := min(d.SegmentSize, len(data))
		frame := data[:n:n]
		data = data[n:]
		got, how := src.pseudo.Verify(frame, id)
		if how == ib.NotVerified && ib.Opcode(frame[0]) == ib.RCFlush {
			got, how = src.pseudo.VerifyFlushOfRxe(frame, id)
		}
		if how == ib.NotVerified {
			c.Dropped[ibta.DropICRC]++
			p.traceFrame(frame, src, got)
			id++
			continue
		}
		if how == ib.VerifiedSolved {
			c.ICRCSolved++
			if first {
				src.learn(got)
			}
		}
		if first {
			src.first, first = got, false
		}
		src.last, id = got, got+1
		p.arrival.Comment = ""
		p.takeFrame(frame, src, got, c, deliver)
		p.traceFrame(frame, src, got) // with a comment that names the device that has taken it
	}
}

// takeFrame handles a packet whose ICRC is right.
func (p *port) takeFrame(frame []byte, src *source, id uint16, c *ibta.Counters,
	deliver func(*ib.Packet, *ibta.Arrival)) {
	if err := p.packet.Decode(frame[:len(frame)-ib.ICRCLen]); err != nil && err != ib.ErrLength { // that one gets a NAK
		c.Dropped[ibta.DropMalformed]++
		return
	}
	p.header.Length = len(frame)
	if q := p.packet.DestQP; (steer.SlotOfQPN(q) != p.slot || q <= ib.QP1) && p.forward(c, frame, src, id) {
		return
	}
	deliver(&p.packet, &p.arrival)
}

// sourceOf finds the source of a datagram.
func (p *port) sourceOf(d *netio.Datagrams) *source {
	to := p.local.Addr()
	if d.To.IsValid() {
		to = d.To
	}
	if s := p.last; s != nil && s.from == d.From && s.to == to {
		return s
	}
	s := p.sources[d.From]
	if s == nil || s.to != to {
		if len(p.sources) >= maxSources {
			clear(p.sources)
		}
		s = &source{from: d.From, to: to, key: keyOf(d.From.Addr()),
			pseudo: ib.NewPseudoHeader(d.From, netip.AddrPortFrom(to, p.local.Port()), true)}
		p.sources[d.From] = s
	}
	p.last = s
	return s
}

// traceFrame writes a received frame to the trace, if there is one.
func (p *port) traceFrame(frame []byte, s *source, id uint16) {
	if p.trace == nil {
		return
	}
	p.trace.WriteUDP(&trace.UDP{At: time.Now(), Src: s.from, Dst: netip.AddrPortFrom(s.to, p.local.Port()), ID: id,
		DontFragment: true, TTL: p.header.TTL, TOS: p.header.TOS, Direction: trace.Inbound,
		Comment: p.arrival.Comment}, frame)
}
