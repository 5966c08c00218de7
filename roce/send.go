// SPDX-License-Identifier: Apache-2.0

package roce

import (
	"encoding/binary"
	"errors"
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
	gso   bool
}

func (s *sender) init(sock *netio.Socket, f netio.Features) {
	s.train = sock.NewTrain()
	s.gso = f.GSO
}

const udpHeaderLen = 8

// Send puts the ICRCs into a batch's packets and sends them in one call. The kernel gives
// the segments of one send the identifications 0, 1, 2, …, and 0 to what is sent alone.
func (p *port) Send(b *ibta.Batch) error {
	if !p.seal(b) {
		return errGone
	}
	err := p.sock.Send(p.train)
	if p.trace != nil && !errors.Is(err, netio.ErrAgain) {
		p.traceBatch(b, b.To.Route.(*route))
	}
	if errors.Is(err, netio.ErrAgain) {
		return softdev.ErrAgain
	}
	return err
}

var errGone = errors.New("roce: memory to be sent has been unmapped")

// seal puts the ICRCs into a batch's packets and gathers them into a train. False: memory of
// theirs is not there any more.
func (p *port) seal(b *ibta.Batch) (ok bool) {
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
		state := r.flow.AfterBTH(udpHeaderLen+size, p.identification(i), pkt.Head)
		if rest := pkt.Head[ib.BTHLen:]; len(rest) > 0 {
			state = ib.ICRCUpdate(state, rest)
		}
		t.Add(pkt.Head)
		for _, piece := range pkt.Payload {
			state = ib.ICRCUpdate(state, piece)
			t.Add(piece)
		}
		if pkt.Again && ib.Opcode(pkt.Head[0]) == ib.RCFlush {
			state = ib.ICRCFlushOfRxe(state, pkt.Head)
		}
		crc := pkt.Tail[len(pkt.Tail)-ib.ICRCLen:]
		if pad := pkt.Tail[:len(pkt.Tail)-ib.ICRCLen]; len(pad) > 0 {
			state = ib.ICRCUpdate(state, pad)
		}
		binary.LittleEndian.PutUint32(crc, state)
		t.Add(pkt.Tail)
	}
	return true
}

// identification returns the IPv4 identification that segment i of a send will have.
func (s *sender) identification(i int) uint16 {
	if !s.gso {
		return 0
	}
	return uint16(i)
}

// traceBatch writes a sent batch to the trace. False: memory of it is not there any more.
func (p *port) traceBatch(b *ibta.Batch, r *route) (ok bool) {
	defer memory.Recover(debug.SetPanicOnFault(true), &ok)
	now, ttl := time.Now(), r.ttl
	if ttl == 0 {
		ttl = 64
	}
	for i := range b.Len() {
		pkt := b.Packet(i)
		parts := append(append([][]byte{pkt.Head}, pkt.Payload...), pkt.Tail)
		p.trace.WriteUDP(&trace.UDP{At: now, Src: p.local, Dst: r.to, ID: p.identification(i), DontFragment: true, TTL: ttl, TOS: r.tos,
			Direction: trace.Outbound}, parts...)
	}
	return true
}
