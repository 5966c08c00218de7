// SPDX-License-Identifier: Apache-2.0

package roce

import (
	"encoding/binary"
	"errors"
	"net/netip"
	"runtime/debug"
	"time"

	"github.com/ramjet-rdma/ramjet/internal/ibta"
	"github.com/ramjet-rdma/ramjet/internal/memory"
	"github.com/ramjet-rdma/ramjet/internal/netio"
	"github.com/ramjet-rdma/ramjet/internal/softdev"
	"github.com/ramjet-rdma/ramjet/trace"
	"github.com/ramjet-rdma/ramjet/wire/ib"
)

// sender is the sending half of a port.
type sender struct {
	train *netio.Train
	ways  map[netip.AddrPort]*way
}

func (s *sender) init(sock *netio.Socket) {
	s.train = sock.NewTrain()
	s.ways = make(map[netip.AddrPort]*way)
}

const udpHeaderLen = 8

// outgoing is what the headers of a send's packets have that the port chooses.
type outgoing struct {
	src  netip.AddrPort
	flow *ib.Flow
	id   uint16 // IPv4 identification of the first packet
	step uint16 // from there to the next packet's
}

// Send puts the ICRCs into a batch's packets and sends them in one call.
func (p *port) Send(b *ibta.Batch) error {
	r := b.To.Route.(*route)
	if w := r.way; w != nil {
		err := p.sendBy(w.sock, &outgoing{w.sock.LocalAddr(), &w.flow, w.sock.Identification(), 1}, b)
		if err == nil || err == softdev.ErrAgain || err == errGone {
			return err
		}
		// An earlier packet may have met nobody at the peer's port. This one goes the other way.
		if w.sock.Recount() != nil {
			p.dropWay(r)
		}
	}
	// Here the kernel gives the segments of one send the identifications 0, 1, 2, …, and 0
	// to what is sent alone.
	out := outgoing{src: p.local, flow: &r.flow}
	if p.sock.Features().GSO {
		out.step = 1
	}
	return p.sendBy(p.sock, &out, b)
}

// sendBy sends a batch by one of the sockets.
func (p *port) sendBy(sock interface{ Send(*netio.Train) error }, out *outgoing, b *ibta.Batch) error {
	if !p.seal(b, out) {
		return errGone
	}
	err := sock.Send(p.train)
	if errors.Is(err, netio.ErrAgain) {
		return softdev.ErrAgain
	}
	if p.trace != nil {
		p.traceBatch(b, out)
	}
	return err
}

var errGone = errors.New("roce: memory to be sent has been unmapped")

// seal copies a batch's payload from the program's memory, puts the ICRCs of what it copied
// into the packets, and makes a train of them. False: memory of theirs is not there any more.
func (p *port) seal(b *ibta.Batch, out *outgoing) (ok bool) {
	defer memory.Recover(debug.SetPanicOnFault(true), &ok)
	r := b.To.Route.(*route)
	t := p.train
	t.Reset(r.to)
	t.Mark(r.ttl, r.tos)
	for i := range b.Len() {
		pkt := b.Packet(i)
		size := b.PacketSize(i)
		if !t.Begin(size) {
			panic("roce: a batch that is no train") // ibta.Batch has the same rules
		}
		state := out.flow.AfterBTH(udpHeaderLen+size, out.identification(i), pkt.Head)
		if rest := pkt.Head[ib.BTHLen:]; len(rest) > 0 {
			state = ib.ICRCUpdate(state, rest)
		}
		for room := pkt.Room; len(pkt.Payload) > 0; pkt.Payload = pkt.Payload[1:] {
			piece := pkt.Payload[0]
			state = ib.ICRCCopy(state, room[:len(piece)], piece)
			room = room[len(piece):]
		}
		if pkt.Again && ib.Opcode(pkt.Head[0]) == ib.RCFlush {
			state = ib.ICRCFlushOfRxe(state, pkt.Head)
		}
		crc := pkt.Tail[len(pkt.Tail)-ib.ICRCLen:]
		if pad := pkt.Tail[:len(pkt.Tail)-ib.ICRCLen]; len(pad) > 0 {
			state = ib.ICRCUpdate(state, pad)
		}
		binary.LittleEndian.PutUint32(crc, state)
		t.Add(pkt.Head) // the three are one piece, and so is the whole batch
		t.Add(pkt.Room)
		t.Add(pkt.Tail)
	}
	return true
}

// identification returns the IPv4 identification of packet i.
func (o *outgoing) identification(i int) uint16 { return o.id + uint16(i)*o.step }

// traceBatch writes a sent batch to the trace.
func (p *port) traceBatch(b *ibta.Batch, out *outgoing) {
	r := b.To.Route.(*route)
	now, ttl := time.Now(), r.ttl
	if ttl == 0 {
		ttl = 64
	}
	for i := range b.Len() {
		pkt := b.Packet(i)
		p.trace.WriteUDP(&trace.UDP{At: now, Src: out.src, Dst: r.to, ID: out.identification(i), DontFragment: true, TTL: ttl, TOS: r.tos,
			Direction: trace.Outbound}, pkt.Head, pkt.Room, pkt.Tail)
	}
}
