// SPDX-License-Identifier: Apache-2.0

package link

import (
	"encoding/binary"

	"github.com/ramjet-rdma/ramjet/internal/base/clock"
	"github.com/ramjet-rdma/ramjet/wire/ib"
)

// Packet is a packet, LRH to ICRC.
type Packet struct {
	bytes []byte
	mem   []byte // the memory of bytes; nil: it belongs to store

	next  *Packet // in its queue or pool
	store *Packet // the owner of the memory: itself or, for a multicast copy, the original
	hold  *Packet // the original whose buffer space this copy keeps in use; nil: none

	in      *Port // whose receive buffer it occupies; nil: none
	arrived clock.Time
	refs    int32 // packets that use mem
	holds   int32 // copies that keep this packet's buffer space in use
	blocks  uint16
	inLane  uint8
	lane    uint8 // on which it leaves
	class   uint8
	port    uint8 // that it came in at

	// NoICRC means that the ICRC is not filled in, and needs no check, as the packet has not left the process.
	// The net computes it when the packet does.
	NoICRC    bool
	vcrcError bool // a cable has corrupted it, and the VCRC shows it
	overtaken bool // it was held back at this port already
}

// Bytes returns the packet from LRH to ICRC. The LRH's virtual lane has no meaning.
func (p *Packet) Bytes() []byte { return p.bytes }

// Port returns the number of the port that the packet came in at.
func (p *Packet) Port() int { return int(p.port) }

// classes are the buffer sizes: acknowledgements, management datagrams, and one for each MTU.
var classes = [...]int{64, 384, 256 + 124, 512 + 124, 1024 + 124, 2048 + 124, ib.MaxPacket}

// pool has the free packets: by class, and multicast copies, without memory.
type pool struct {
	free   [len(classes)]*Packet
	copies *Packet
}

// Alloc returns a packet of size bytes of undefined content; nil if size exceeds [ib.MaxPacket].
func (n *Net) Alloc(size int) *Packet {
	for c, max := range classes {
		if size > max {
			continue
		}
		p := n.pool.free[c]
		if p != nil {
			n.pool.free[c] = p.next
			p.next = nil
		} else {
			p = &Packet{mem: make([]byte, max), class: uint8(c)}
			p.store = p
		}
		p.refs = 1
		p.bytes = p.mem[:size]
		p.NoICRC, p.vcrcError, p.overtaken = false, false, false
		return p
	}
	return nil
}

// copyOf returns a packet that shares the bytes of p.
func (n *Net) copyOf(p *Packet) *Packet {
	c := n.pool.copies
	if c != nil {
		n.pool.copies = c.next
		c.next = nil
	} else {
		c = new(Packet)
	}
	c.bytes, c.store, c.blocks, c.arrived = p.bytes, p.store, p.blocks, p.arrived
	c.NoICRC, c.vcrcError, c.overtaken = p.NoICRC, p.vcrcError, false
	c.store.refs++
	return c
}

// unshare returns p, or a copy that replaces it if p shares its bytes.
func (n *Net) unshare(p *Packet) *Packet {
	if p.store == p && p.refs == 1 {
		return p
	}
	c := n.Alloc(len(p.bytes))
	copy(c.bytes, p.bytes)
	c.in, c.inLane, c.lane, c.blocks, c.arrived = p.in, p.inLane, p.lane, p.blocks, p.arrived
	c.hold, c.NoICRC, c.vcrcError = p.hold, p.NoICRC, p.vcrcError
	p.in, p.hold = nil, nil
	n.free(p)
	return c
}

// free returns a packet that occupies no buffer to the pool.
func (n *Net) free(p *Packet) {
	s := p.store
	if s != p {
		p.bytes, p.store = nil, nil
		p.next = n.pool.copies
		n.pool.copies = p
	}
	s.refs--
	if s.refs == 0 {
		s.next = n.pool.free[s.class]
		n.pool.free[s.class] = s
	}
}

// drop frees a packet and its buffer space.
func (n *Net) drop(p *Packet) {
	n.releaseBuffer(p)
	n.free(p)
}

// lose drops a packet that its sender may have to send again.
func (n *Net) lose(p *Packet) {
	n.losses++
	n.drop(p)
}

// Losses returns how many packets, except subnet management packets, did not get to their destinations.
func (n *Net) Losses() uint64 { return n.losses }

// Accessors of header fields that every hop reads. Only wellFormed and bth take packets of any length: the others take
// packets that one of the two has passed.

func (p *Packet) sl() uint8    { return p.bytes[1] >> 4 }
func (p *Packet) lnh() ib.LNH  { return ib.LNH(p.bytes[1] & 3) }
func (p *Packet) dlid() uint16 { return binary.BigEndian.Uint16(p.bytes[2:]) }
func (p *Packet) slid() uint16 { return binary.BigEndian.Uint16(p.bytes[6:]) }
func (p *Packet) pktLen() int  { return int(binary.BigEndian.Uint16(p.bytes[4:]) & 0x7ff) }

// bth returns the offset of the BTH; 0: there is none.
func (p *Packet) bth() int {
	if len(p.bytes) < ib.LRHLen {
		return 0
	}
	at := 0
	switch p.lnh() {
	case ib.LNHLocal:
		at = ib.LRHLen
	case ib.LNHGlobal:
		at = ib.LRHLen + ib.GRHLen
	}
	if len(p.bytes) < at+ib.BTHLen+ib.ICRCLen {
		return 0
	}
	return at
}

// destQP and pkey read the BTH at the offset that bth returned.
func (p *Packet) destQP(bth int) ib.QPN {
	return ib.QPN(binary.BigEndian.Uint32(p.bytes[bth+4:]) & 0xffffff)
}

func (p *Packet) pkey(bth int) ib.PKey { return ib.PKey(binary.BigEndian.Uint16(p.bytes[bth+2:])) }

// wellFormed reports whether the length is valid and agrees with the LRH (section 7.7.8).
func (p *Packet) wellFormed() bool {
	return len(p.bytes) >= minPacket && p.pktLen()*4 == len(p.bytes) && p.bytes[0]&15 == 0
}

// minPacket is the length of the shortest packet: a raw one has an LRH and 12 bytes (section 7.7.8).
const minPacket = 20

// blocksOf returns the 64-byte blocks of buffer that a packet of size bytes occupies with its VCRC (section
// 7.9.4).
func blocksOf(size int) uint16 { return uint16((size + ib.VCRCLen + blockSize - 1) / blockSize) }

const blockSize = 64

// multicast reports whether a LID is that of a group.
func multicast(lid uint16) bool { return lid >= 0xc000 && lid != 0xffff }

// fillICRC computes the ICRC of p if NoICRC is set.
func (p *Packet) fillICRC() {
	if !p.NoICRC {
		return
	}
	p.NoICRC = false
	end := len(p.bytes) - ib.ICRCLen
	if state, ok := ib.LocalICRC(p.bytes[:end]); ok {
		binary.LittleEndian.PutUint32(p.bytes[end:], state)
	}
}

// icrcValid reports whether the ICRC is right; if NoICRC is set, it cannot be wrong.
func (p *Packet) icrcValid() bool {
	if p.NoICRC {
		return true
	}
	end := len(p.bytes) - ib.ICRCLen
	state, ok := ib.LocalICRC(p.bytes[:end])
	return ok && state == binary.LittleEndian.Uint32(p.bytes[end:])
}
