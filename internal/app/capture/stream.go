// SPDX-License-Identifier: Apache-2.0

package capture

import (
	"encoding/binary"

	"github.com/ramjet-rdma/ramjet/wire/iwarp"
)

// ItemKind is the kind of an item of a stream.
type ItemKind uint8

// The kinds of items.
const (
	TCPOpen         ItemKind = iota + 1 // the SYN of a connection that turned out to be iWARP
	TCPEnd                              // FIN
	TCPReset                            // RST
	TCPRetransmit                       // bytes that were seen before, or that fill a gap late
	TCPHole                             // bytes that the capture does not have
	SetUp                               // a set-up frame of MPA
	Segment                             // a DDP segment
	ReadyToReceive                      // an empty FPDU (RFC 6581 section 4.3)
	MalformedStream                     // bytes that are no FPDU; reading goes on where one begins again
)

// Item is part of an iWARP connection.
type Item struct {
	Kind       ItemKind
	Connection int  // numbered from 0
	FromDialer bool // from the side that sent the SYN or the MPA request

	Frame    iwarp.Frame    // of a SetUp
	Enhanced iwarp.Enhanced // of a SetUp with FlagEnhanced
	Private  []byte         // of a SetUp: private data; valid as long as the packet
	Header   iwarp.Header   // of a Segment
	Body     []byte         // of a Segment, behind the header
	Bytes    int            // of TCPRetransmit, TCPHole
	Seq      uint32         // TCP's, relative to the first byte that was seen
}

// mode is how a direction's next bytes are read.
type mode uint8

const (
	unknownMode mode = iota // nothing was seen
	frameMode               // a set-up frame comes
	fpduMode                // FPDUs come
	searchMode              // a TCP segment that begins with an FPDU is looked for
)

// half is one direction of a connection.
type half struct {
	started   bool
	direction Direction // of its sightings; others are second sightings
	base      uint32    // sequence number of the first byte
	next      uint32    // of the next byte that is expected
	acked     uint32    // the other side's acknowledgement
	hasAck    bool

	mode    mode
	markers bool   // MPA's markers are in it
	at      uint64 // position of buf in the stream of FPDUs, for markers
	buf     []byte // from the beginning of an FPDU or set-up frame on
	missing int    // bytes of buf that were not captured
	comment string // of the frames with the bytes of buf; empty: they have none

	ahead      []ahead // segments that came before the next bytes, in order
	aheadBytes int

	held int // bytes of buf and ahead, as connections.held counts them
}

// ahead is a segment that came too early.
type ahead struct {
	seq     uint32
	data    []byte
	missing int
}

// connection is a TCP connection.
type connection struct {
	number int // -1: not known to be iWARP
	other  bool
	halves [2]half
	dialer int // index of the dialer's half; -1: unknown
	crc    int // CRCs: 0 not known, 1 not used, 2 used
	open   *Packet
	item   Item
}

// Bounds of the memory that a file can make a decoder hold.
const (
	maxConnections = 4096
	maxAhead       = 1 << 18 // bytes and, divided by 256, segments
	maxFPDU        = 1<<16 + 1<<11
	maxHeld        = 1 << 27 // bytes of all connections
	keptBuffer     = 4096    // bytes of a buffer that is kept while it is empty
	aheadOverhead  = 64      // bytes of a segment beyond its data
)

// deframe takes set-up frames and FPDUs from the front of a half's buffer, as far as they are complete.
func (d *Decoder) deframe(c *connection, side int, p *Packet) {
	h := &c.halves[side]
	for !c.other {
		n := 0
		switch h.mode {
		case frameMode:
			n = d.setUp(c, side, p)
		case fpduMode:
			n = d.fpdu(c, side, p)
		default:
			h.buf, h.missing = h.buf[:0], 0
			return
		}
		if n == 0 {
			return
		}
		h.buf = h.buf[:copy(h.buf, h.buf[n:])]
		h.missing = 0
	}
}

// setUp reads a set-up frame and returns its length, or 0 if it is not complete or is none.
func (d *Decoder) setUp(c *connection, side int, p *Packet) int {
	h := &c.halves[side]
	var f iwarp.Frame
	if len(h.buf) < iwarp.FrameHeaderLen {
		return 0
	}
	if !f.Decode(h.buf) {
		h.mode = searchMode
		if c.number < 0 { // not iWARP, unless the capture began later
			c.other = true
		}
		return 0
	}
	n := iwarp.FrameHeaderLen + int(f.PrivateLen)
	if len(h.buf) < n {
		return 0
	}
	if c.dialer < 0 {
		c.dialer = side
		if f.Kind == iwarp.Reply {
			c.dialer = 1 - side
		}
	}
	it := d.newItem(c, side, SetUp, p)
	it.Frame, it.Private = f, h.buf[iwarp.FrameHeaderLen:n]
	if f.Flags&iwarp.FlagEnhanced != 0 && it.Enhanced.Decode(it.Private) {
		it.Private = it.Private[iwarp.EnhancedLen:]
	}
	c.halves[1-side].markers = f.Flags&iwarp.FlagMarkers != 0
	if f.Flags&iwarp.FlagCRC != 0 {
		c.crc = 2
	} else if c.crc == 0 && f.Kind == iwarp.Reply {
		c.crc = 1
	}
	h.mode, h.at = fpduMode, 0
	d.send(p, h)
	return n
}

// fpdu reads an FPDU and returns its length with markers, or 0 if it is not complete.
func (d *Decoder) fpdu(c *connection, side int, p *Packet) int {
	h := &c.halves[side]
	ulpdu, n, ok := d.unmark(h)
	if !ok {
		return 0
	}
	if len(ulpdu) == 0 {
		d.newItem(c, side, ReadyToReceive, p)
		d.send(p, h)
		h.at += uint64(n)
		return n
	}
	it := d.newItem(c, side, Segment, p)
	if !it.Header.Decode(ulpdu) || !plausible(&it.Header) {
		it.Kind = MalformedStream
		h.mode = searchMode
		d.send(p, h)
		return 0
	}
	it.Body = ulpdu[it.Header.Len():]
	if h.missing == 0 && c.crc == 2 {
		end := n - iwarp.CRCLen
		p.BadCRC = iwarp.UpdateCRC(0, h.buf[:end]) != iwarp.GetCRC(h.buf[end:])
	}
	d.send(p, h)
	p.BadCRC = false
	h.at += uint64(n)
	return n
}

// plausible reports whether a header can be one: versions and reserved bits are right, and the opcode fits the kind
// of segment.
func plausible(h *iwarp.Header) bool {
	return h.DDP == iwarp.DDPVersion && h.RDMAP <= iwarp.RDMAPVersion && h.Opcode.Valid() &&
		h.Opcode.Tagged() == h.Tagged
}

// unmark returns the ULPDU of the FPDU at the front of a half's buffer, without markers, and the FPDU's length with
// them.
func (d *Decoder) unmark(h *half) (ulpdu []byte, n int, ok bool) {
	if !h.markers {
		if len(h.buf) < iwarp.LengthLen {
			return nil, 0, false
		}
		length := int(binary.BigEndian.Uint16(h.buf))
		n = iwarp.FPDULen(length)
		if len(h.buf) < n {
			return nil, 0, false
		}
		return h.buf[iwarp.LengthLen:][:length], n, true
	}
	b, at, want := d.tcps.scratch[:0], 0, iwarp.LengthLen
	for len(b) < want {
		switch in := int((h.at + uint64(at)) % iwarp.MarkerInterval); {
		case in == 0 && len(h.buf)-at < iwarp.MarkerLen:
			return nil, 0, false
		default:
			if in == 0 {
				at += iwarp.MarkerLen
				in = iwarp.MarkerLen
			}
			take := min(want-len(b), iwarp.MarkerInterval-in)
			if len(h.buf)-at < take {
				return nil, 0, false
			}
			b = append(b, h.buf[at:at+take]...)
			at += take
		}
		if len(b) == iwarp.LengthLen {
			want = iwarp.FPDULen(int(binary.BigEndian.Uint16(b)))
		}
	}
	d.tcps.scratch = b
	return b[iwarp.LengthLen:][:binary.BigEndian.Uint16(b)], at, true
}

// needs returns how many more bytes the FPDU or frame at the front of the buffer takes, 0 if that is not known.
func (h *half) needs() int {
	switch {
	case h.mode == fpduMode && !h.markers && len(h.buf) >= iwarp.LengthLen:
		return iwarp.FPDULen(int(binary.BigEndian.Uint16(h.buf))) - len(h.buf)
	case h.mode == frameMode && len(h.buf) >= iwarp.FrameHeaderLen:
		return iwarp.FrameHeaderLen + int(binary.BigEndian.Uint16(h.buf[18:])) - len(h.buf)
	}
	return 0
}

// newItem begins an item; the connection is one of iWARP from then on.
func (d *Decoder) newItem(c *connection, side int, kind ItemKind, p *Packet) *Item {
	if c.number < 0 {
		c.number = d.tcps.numbered
		d.tcps.numbered++
		if c.open != nil {
			o := c.open
			c.open = nil
			o.Stream = &Item{Kind: TCPOpen, Connection: c.number, FromDialer: true}
			d.emit(o)
		}
	}
	c.item = Item{Kind: kind, Connection: c.number, FromDialer: side == c.dialer}
	p.Fabric, p.Stream = IWARP, &c.item
	return &c.item
}

// send hands over the current item.
func (d *Decoder) send(p *Packet, h *half) {
	comment := p.Comment
	if p.Comment == "" {
		p.Comment = h.comment
	}
	h.comment = ""
	p.Missing = h.missing
	d.emit(p)
	p.Missing, p.Comment = 0, comment
}

// begins reports whether an FPDU begins at b, the data of a TCP segment: how a stream is found again, or for the
// first time if the capture began later. It must be whole, and its CRC right or unused.
func begins(b []byte) bool {
	if len(b) < iwarp.LengthLen {
		return false
	}
	length := int(binary.BigEndian.Uint16(b))
	n := iwarp.FPDULen(length)
	var h iwarp.Header
	if length == 0 || len(b) < n || !h.Decode(b[iwarp.LengthLen:][:length]) || !plausible(&h) ||
		h.RDMAP != iwarp.RDMAPVersion || h.Reserved != 0 {
		return false
	}
	sum := iwarp.GetCRC(b[n-iwarp.CRCLen:])
	return sum == 0 || sum == iwarp.UpdateCRC(0, b[:n-iwarp.CRCLen])
}
