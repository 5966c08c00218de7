// SPDX-License-Identifier: Apache-2.0

package ibta

import (
	"encoding/binary"
	"slices"

	"github.com/ramjet-rdma/ramjet/internal/base/memory"
	"github.com/ramjet-rdma/ramjet/wire/ib"
)

const (
	// icrcLen is the room that follows each packet for its invariant CRC.
	icrcLen = 4
	// copyBelow is the length up to which a piece of payload is copied next to its header at once:
	// computing the ICRC of many short pieces takes longer than that of one long piece.
	copyBelow = 1024
)

// Batch is a run of packets to one destination that can leave in one send: all of one size, except
// the last, which may be shorter. They are contiguous in the batch's own memory. Short payload is
// copied there at once. Longer payload has room there, and the port copies it from the program's
// memory while it computes the ICRC, so that the bytes under the ICRC do not change any more
// (docs/decisions/0011-payload-that-changes.md). A Batch is reused and does not allocate.
type Batch struct {
	To     *Vector
	Limits Limits // of the port

	// Acks says that plain acknowledgements may leave now. A device that has just delivered a
	// message holds them back for a moment, so that the program's answer goes first.
	Acks bool

	// Corrupt has the port spoil the ICRC of the last packet (see [Batch.Spoil]): a fault was injected.
	Corrupt bool

	// Comment is for a recording of the packets.
	Comment string

	buf     []byte
	packets []packetEnd
	pieces  [][]byte
	size    int // bytes of all packets, ICRCs included
	segment int // bytes of the first packet
	sealed  bool
	full    bool // a packet was refused
}

// packetEnd is the offset of a packet's end in the batch's memory.
type packetEnd struct {
	head   int // end of the headers and of copied payload, in buf
	room   int // end of the room for payload not yet copied, in buf
	tail   int // end of the pad and the ICRC, in buf
	pieces int // end of its payload pieces
}

// OutPacket is one packet of a batch: Head, then the pieces of Payload, then Tail, whose last four
// bytes are for the ICRC. Room is the space between Head and Tail in the batch's memory, as long as
// all pieces together. Once they are copied there, Head, Room and Tail are the contiguous packet,
// and all packets of the batch are contiguous (see [Batch.Memory]). This is the only form in which
// payload gets from work requests to a port. A packet has no more pieces than KiB of payload:
// shorter pieces are copied to Head.
type OutPacket struct {
	Head    []byte
	Room    []byte
	Payload [][]byte // of the program, which may change it at any time
	Tail    []byte
}

// Seal copies the payload into its room and writes the ICRC, of which state covers the headers. The ICRC covers the
// copied bytes, even if the program changes the memory meanwhile. Seal faults if some of it is no longer mapped.
func (p *OutPacket) Seal(state uint32) {
	room := p.Room
	for _, piece := range p.Payload {
		state = ib.ICRCCopy(state, room[:len(piece)], piece)
		room = room[len(piece):]
	}
	pad := len(p.Tail) - icrcLen
	if pad > 0 {
		state = ib.ICRCUpdate(state, p.Tail[:pad])
	}
	binary.LittleEndian.PutUint32(p.Tail[pad:], state)
}

// Spoil changes the ICRC of the last packet, if [Batch.Corrupt] is set. All packets are sealed.
func (b *Batch) Spoil() {
	if b.Corrupt {
		b.buf[len(b.buf)-1] ^= 1
	}
}

// NewBatch makes a batch for a port with these limits.
func NewBatch(l Limits) *Batch {
	const tail = 128 // headers of a packet that does not fit in the end
	return &Batch{Limits: l, Acks: true, buf: make([]byte, 0, l.MaxBytes+tail)}
}

// Len returns the number of packets.
func (b *Batch) Len() int { return len(b.packets) }

// Bytes returns the bytes of all packets.
func (b *Batch) Bytes() int { return b.size }

// Packet returns packet i. Its memory is the batch's.
func (b *Batch) Packet(i int) OutPacket {
	var from packetEnd
	if i > 0 {
		from = b.packets[i-1]
	}
	p := b.packets[i]
	return OutPacket{
		Head:    b.buf[from.tail:p.head:p.head],
		Room:    b.buf[p.head:p.room:p.room],
		Payload: b.pieces[from.pieces:p.pieces:p.pieces],
		Tail:    b.buf[p.room:p.tail:p.tail],
	}
}

// Memory returns all packets contiguously, and the length of each except the last, which may be
// shorter. The port has to fill their rooms and ICRCs first.
func (b *Batch) Memory() (all []byte, segment int) { return b.buf, b.segment }

// PacketSize returns the bytes of packet i, its ICRC included.
func (b *Batch) PacketSize(i int) int {
	if i < len(b.packets)-1 || len(b.packets) == 1 {
		return b.segment
	}
	return b.size - b.segment*(len(b.packets)-1)
}

// Reset empties the batch.
func (b *Batch) Reset() {
	clear(b.pieces)
	b.To, b.buf, b.packets, b.pieces = nil, b.buf[:0], b.packets[:0], b.pieces[:0]
	b.size, b.segment, b.sealed, b.full, b.Corrupt, b.Comment = 0, 0, false, false, false, ""
}

// Extract returns a copy of packet i with its payload, and room for the ICRC. It returns false if some of the payload
// is no longer mapped.
func (b *Batch) Extract(i int) ([]byte, bool) {
	p := b.Packet(i)
	out := make([]byte, 0, b.PacketSize(i))
	out = append(out, p.Head...)
	for _, piece := range p.Payload {
		at := len(out)
		out = out[:at+len(piece)]
		if !memory.Copy(out[at:], piece) {
			return nil, false
		}
	}
	return append(out, p.Tail...), true
}

// SetPacket makes a packet that Extract has returned the only one of the batch.
func (b *Batch) SetPacket(to *Vector, packet []byte) {
	b.Reset()
	b.buf = append(b.buf, packet...)
	n := len(b.buf)
	b.To, b.size, b.segment = to, n, n
	b.packets = append(b.packets, packetEnd{head: n - icrcLen, room: n - icrcLen, tail: n})
}

// Detach copies the payload that is in the program's memory, for a batch that cannot be sent before
// the program gets that memory back. It returns false if some of it is no longer mapped: the batch
// cannot be sent.
func (b *Batch) Detach() bool {
	for i := range b.packets {
		p := b.Packet(i)
		for j, piece := range p.Payload {
			to := p.Room[:len(piece):len(piece)]
			if !memory.Copy(to, piece) {
				return false
			}
			p.Payload[j], p.Room = to, p.Room[len(piece):]
		}
	}
	return true
}

// fits reports whether a packet of size bytes to a destination may join.
func (b *Batch) fits(to *Vector, size int, qpn ib.QPN) bool {
	if len(b.packets) == 0 {
		return true
	}
	const destQP = 5 // in the BTH, most significant byte
	steering := 8 - b.Limits.SteeringBits
	b.full = b.full || b.sealed || size > b.segment || !b.roomFor(1, size) || b.To != to && !b.To.same(to) ||
		b.buf[destQP]>>steering != byte(qpn>>16)>>steering
	return !b.full
}

func (b *Batch) roomFor(n, size int) bool {
	return len(b.packets)+n <= b.Limits.MaxPackets && b.size+n*size <= b.Limits.MaxBytes
}

// ends reports whether no other packet of its size fits after one of size bytes.
func (b *Batch) ends(size int) bool {
	return len(b.packets) > 0 && size < b.segment || !b.roomFor(2, size)
}

// Full reports whether a packet was refused because it does not fit.
func (b *Batch) Full() bool { return b.full }

// packetSize returns the bytes of a packet with its pad and ICRC.
func packetSize(op ib.Opcode, payload int) int {
	return op.Info().HeaderLen + payload + int(ib.PadFor(payload)) + icrcLen
}

// add appends a packet that fits, with the next n bytes of from as payload. It returns false,
// without adding the packet, if the payload's region was deregistered.
func (b *Batch) add(to *Vector, p *ib.Packet, from *memory.Cursor, n int) bool {
	p.PadCount = ib.PadFor(n)
	return b.gather(to, p.AppendHeader(b.buf), from, n)
}

// repeat is add for a packet that differs from the last one only in PSN, AckReq and RETH, and has
// no other headers.
func (b *Batch) repeat(p *ib.Packet, from *memory.Cursor, n int) bool {
	return b.gather(b.To, b.repeatHeader(p), from, n)
}

// repeatHeader returns the batch's memory with the last packet's BTH repeated after it, and the
// packet's RETH if it has one.
func (b *Batch) repeatHeader(p *ib.Packet) []byte {
	start := 0
	if i := len(b.packets) - 2; i >= 0 {
		start = b.packets[i].tail
	}
	buf := append(b.buf, b.buf[start:start+ib.BTHLen]...)
	ib.PatchBTH(buf[len(buf)-ib.BTHLen:], p.AckReq, p.PSN)
	if p.Opcode.Info().Headers&ib.HasRETH != 0 {
		buf = p.RETH.Append(buf)
	}
	return buf
}

// gather closes a packet whose headers end buf with the next n bytes of from.
func (b *Batch) gather(to *Vector, buf []byte, from *memory.Cursor, n int) bool {
	start, pieces := len(b.buf), len(b.pieces)
	if n <= copyBelow || n <= copyBelow*from.Pieces(n) {
		buf, ok := from.Append(buf, n)
		if ok {
			b.finish(to, buf, start, n, 0)
		}
		return ok
	}
	for left := n; left > 0; {
		part, ok := from.Next(left)
		if !ok {
			clear(b.pieces[pieces:])
			b.pieces = b.pieces[:pieces]
			return false
		}
		left -= len(part)
		b.pieces = append(b.pieces, part)
	}
	b.finish(to, buf, start, n, n)
	return true
}

// finish closes a packet whose headers and copied payload end with buf, and whose other payload has
// room bytes of room after that.
func (b *Batch) finish(to *Vector, buf []byte, start, payload, room int) {
	head := len(buf)
	var zero [3 + icrcLen]byte
	buf = slices.Grow(buf, room)[:head+room]
	buf = append(buf, zero[:int(ib.PadFor(payload))+icrcLen]...)
	b.buf = buf
	size := len(buf) - start
	if len(b.packets) == 0 {
		b.To, b.segment = to, size
	} else if size < b.segment {
		b.sealed = true
	}
	b.size += size
	b.packets = append(b.packets, packetEnd{head: head, room: head + room, tail: len(buf), pieces: len(b.pieces)})
}

// cnpReserved is the number of zero bytes behind the BTH of a CNP (IBTA annex A17.9.3).
const cnpReserved = 16

// addReserved appends a CNP that fits.
func (b *Batch) addReserved(to *Vector, p *ib.Packet) {
	p.PadCount = 0
	var zeros [cnpReserved]byte
	b.finish(to, append(p.AppendHeader(b.buf), zeros[:]...), len(b.buf), cnpReserved, 0)
}

// addSpan appends a packet that fits, with n bytes of s from off on as payload. It returns false,
// without adding the packet, if the span's region was deregistered.
func (b *Batch) addSpan(to *Vector, p *ib.Packet, s *memory.Span, off, n int) bool {
	p.PadCount = ib.PadFor(n)
	return b.cut(to, p.AppendHeader(b.buf), s, off, n)
}

// repeatSpan is addSpan for packets that repeat adds.
func (b *Batch) repeatSpan(p *ib.Packet, s *memory.Span, off, n int) bool {
	return b.cut(b.To, b.repeatHeader(p), s, off, n)
}

// cut closes a packet whose headers end buf with n bytes of s from off on.
func (b *Batch) cut(to *Vector, buf []byte, s *memory.Span, off, n int) bool {
	start, room := len(b.buf), 0
	switch {
	case n > copyBelow:
		part, ok := s.Part(off, n)
		if !ok {
			return false
		}
		b.pieces = append(b.pieces, part)
		room = n
	case n > 0:
		var ok bool
		if buf, ok = s.Append(buf, off, n); !ok {
			return false
		}
	}
	b.finish(to, buf, start, n, room)
	return true
}
