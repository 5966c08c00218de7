// SPDX-License-Identifier: Apache-2.0

package roce

import (
	"errors"
	"net/netip"
	"runtime/debug"
	"time"

	"github.com/ramjet-rdma/ramjet/internal/base/memory"
	"github.com/ramjet-rdma/ramjet/internal/core/softdev"
	"github.com/ramjet-rdma/ramjet/internal/engine/ibta"
	"github.com/ramjet-rdma/ramjet/internal/system/netio"
	"github.com/ramjet-rdma/ramjet/trace"
	"github.com/ramjet-rdma/ramjet/wire/ib"
)

// sender is the sending half of a port.
type sender struct {
	train       *netio.Train
	peerSockets map[netip.AddrPort]*peerSocket
	flushes     flushTracker
}

func (s *sender) init(sock *netio.Socket) {
	s.train = sock.NewTrain()
	s.peerSockets = make(map[netip.AddrPort]*peerSocket)
}

const udpHeaderLen = 8

// outgoing is the port's choices for the headers of a send.
type outgoing struct {
	src    netip.AddrPort
	pseudo *ib.PseudoHeader
	id     uint16 // IPv4 identification of the first packet
	step   uint16 // difference to the next packet's
}

// Send puts the ICRCs into a batch's packets and sends them in one system call.
func (p *port) Send(b *ibta.Batch) error {
	r := b.To.Path.(*route)
	if w := r.sock; w != nil {
		err := p.sendBy(w.sock, &outgoing{w.sock.LocalAddr(), &w.pseudo, w.sock.Identification(), 1}, b)
		if err == nil || err == softdev.ErrAgain || err == errGone {
			return err
		}
		// An earlier packet may have met a closed port at the peer. This one leaves through the
		// other socket.
		if w.sock.Recount() != nil {
			p.dropPeerSocket(r)
		}
	}
	// On this socket the kernel numbers the segments of one send 0, 1, 2, …, and a lone datagram 0.
	out := outgoing{src: p.local, pseudo: &r.pseudo}
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
	p.flushes.sent()
	if p.trace != nil {
		p.traceBatch(b, out)
	}
	return err
}

var errGone = errors.New("roce: memory to be sent has been unmapped")

// seal copies a batch's payload from the program's memory, puts the ICRCs of the copy into the
// packets, and makes a train of them. It returns false if some of the memory is no longer mapped.
func (p *port) seal(b *ibta.Batch, out *outgoing) (ok bool) {
	defer memory.Recover(debug.SetPanicOnFault(true), &ok)
	r := b.To.Path.(*route)
	p.flushes.begin()
	for i := range b.Len() {
		pkt := b.Packet(i)
		state := out.pseudo.AfterBTH(udpHeaderLen+b.PacketSize(i), out.identification(i), pkt.Head)
		if rest := pkt.Head[ib.BTHLen:]; len(rest) > 0 {
			state = ib.ICRCUpdate(state, rest)
		}
		if ib.Opcode(pkt.Head[0]) == ib.RCFlush && p.flushes.isOdd(r, pkt.Head) {
			state = ib.ICRCFlushOfRxe(state, pkt.Head)
		}
		pkt.Seal(state)
	}
	b.Spoil()
	p.train.Reset(r.to)
	p.train.Mark(r.ttl, r.tos)
	if !p.train.Fill(b.Memory()) {
		panic("roce: a batch that is no train") // ibta.Batch has the same rules
	}
	return true
}

// identification returns the IPv4 identification of packet i.
func (o *outgoing) identification(i int) uint16 { return o.id + uint16(i)*o.step }

// traceBatch writes a sent batch to the trace.
func (p *port) traceBatch(b *ibta.Batch, out *outgoing) {
	r := b.To.Path.(*route)
	now, ttl := time.Now(), r.ttl
	if ttl == 0 {
		ttl = 64
	}
	for i := range b.Len() {
		pkt := b.Packet(i)
		p.trace.WriteUDP(&trace.UDP{At: now, Src: out.src, Dst: r.to, ID: out.identification(i), DontFragment: true,
			TTL: ttl, TOS: r.tos, Direction: trace.Outbound, Comment: b.Comment}, pkt.Head, pkt.Room, pkt.Tail)
	}
}

// RecordLost implements packetdev.Recorder.
func (p *port) RecordLost(b *ibta.Batch) {
	if p.trace == nil {
		return
	}
	r := b.To.Path.(*route)
	out := outgoing{src: p.local, pseudo: &r.pseudo}
	if w := r.sock; w != nil {
		out = outgoing{w.sock.LocalAddr(), &w.pseudo, w.sock.Identification(), 1}
	}
	if p.seal(b, &out) {
		p.traceBatch(b, &out)
	}
}
