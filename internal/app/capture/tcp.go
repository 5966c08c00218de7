// SPDX-License-Identifier: Apache-2.0

package capture

import (
	"encoding/binary"
	"fmt"
	"net/netip"
)

// Flags of TCP (RFC 9293 section 3.1).
const (
	tcpFIN = 1 << 0
	tcpSYN = 1 << 1
	tcpRST = 1 << 2
	tcpACK = 1 << 4

	tcpLen = 20
)

// connKey is the two ends of a connection, the smaller one first.
type connKey struct{ a, b netip.AddrPort }

// connections are the TCP connections of a capture.
type connections struct {
	all      map[connKey]*connection
	numbered int
	scratch  []byte
	held     int // bytes that wait for others, of all
}

func newConnections() connections { return connections{all: make(map[connKey]*connection)} }

// get returns a connection and which half sends from src.
func (s *connections) get(src, dst netip.AddrPort) (*connection, int) {
	k, side := connKey{src, dst}, 0
	if dst.Compare(src) < 0 {
		k, side = connKey{dst, src}, 1
	}
	c := s.all[k]
	if c == nil {
		s.makeRoom()
		c = &connection{number: -1, dialer: -1}
		s.all[k] = c
	}
	return c, side
}

// makeRoom forgets connections if there are too many: connections that are not iWARP first.
func (s *connections) makeRoom() {
	if len(s.all) < maxConnections {
		return
	}
	for k, c := range s.all {
		if c.number < 0 {
			s.release(&c.halves[0])
			s.release(&c.halves[1])
			delete(s.all, k)
		}
	}
	if len(s.all) >= maxConnections {
		clear(s.all)
		s.held = 0
	}
}

// release frees the segments that a half holds.
func (s *connections) release(h *half) {
	s.held -= h.held
	*h = half{}
}

// count counts the bytes that a half holds now.
func (s *connections) count(h *half) {
	if len(h.buf) == 0 && cap(h.buf) > keptBuffer {
		h.buf = nil
	}
	now := cap(h.buf) + h.aheadBytes + aheadOverhead*len(h.ahead)
	s.held += now - h.held
	h.held = now
}

// tcp reads a segment. Bytes are put in order; bytes that were seen before are a retransmission.
func (d *Decoder) tcp(ip *ipPacket, p *Packet) {
	b := ip.body
	if len(b) < tcpLen || int(b[12]>>4)*4 < tcpLen || len(b) < int(b[12]>>4)*4 {
		return
	}
	header := int(b[12]>>4) * 4
	p.FromPort, p.ToPort = binary.BigEndian.Uint16(b), binary.BigEndian.Uint16(b[2:])
	c, side := d.tcps.get(netip.AddrPortFrom(ip.src, p.FromPort), netip.AddrPortFrom(ip.dst, p.ToPort))
	seq, flags := binary.BigEndian.Uint32(b[4:]), b[13]
	if flags&tcpSYN != 0 {
		d.syn(c, side, seq, flags, p)
		return
	}
	h, peer := &c.halves[side], &c.halves[1-side]
	if c.other || h.started && h.direction != p.Direction {
		return
	}
	if flags&tcpACK != 0 && peer.started {
		if ack := binary.BigEndian.Uint32(b[8:]); !peer.hasAck || int32(ack-peer.acked) > 0 {
			peer.acked, peer.hasAck = ack, true
		}
	}
	data := b[header:]
	missing := max(ip.whole-len(b), 0)
	if len(data)+missing > 0 {
		d.data(c, side, ahead{seq, data, missing}, p)
		if c.other { // not iWARP: it is not read
			d.tcps.release(h)
			d.tcps.release(peer)
		}
		d.tcps.count(h)
		if d.tcps.held > maxHeld && d.err == nil {
			d.err = fmt.Errorf("frame %d: more than %d MiB of TCP segments wait for others that are missing: "+
				"give a file with fewer connections, or cut it (editcap)", p.Frame, maxHeld>>20)
		}
	}
	d.finish(c, side, flags, p)
}

// syn begins a connection, or a new one between the same ends.
func (d *Decoder) syn(c *connection, side int, seq uint32, flags byte, p *Packet) {
	if h := &c.halves[side]; h.started && h.base == seq+1 {
		return // once more
	}
	started, markers := c.halves[side].started, c.halves[side].markers
	d.tcps.release(&c.halves[side])
	if flags&tcpACK == 0 {
		d.tcps.release(&c.halves[1-side])
		*c = connection{number: -1, dialer: side}
		open := *p
		open.Fabric = IWARP
		c.open = &open
	} else if started {
		d.tcps.release(&c.halves[1-side])
		*c = connection{number: -1, dialer: 1 - side}
	}
	c.halves[side] = half{started: true, direction: p.Direction, base: seq + 1, next: seq + 1, mode: frameMode,
		markers: markers}
}

// finish reports the end of a connection if it carries iWARP.
func (d *Decoder) finish(c *connection, side int, flags byte, p *Packet) {
	if c.number < 0 || c.other || flags&(tcpFIN|tcpRST) == 0 {
		return
	}
	kind := TCPEnd
	if flags&tcpRST != 0 {
		kind = TCPReset
	}
	d.newItem(c, side, kind, p)
	d.emit(p)
}

// data takes a segment's bytes.
func (d *Decoder) data(c *connection, side int, s ahead, p *Packet) {
	h := &c.halves[side]
	if !h.started { // the capture began later
		*h = half{started: true, direction: p.Direction, base: s.seq, next: s.seq, mode: searchMode, markers: h.markers}
	}
	length := len(s.data) + s.missing
	early := int(int32(s.seq - h.next))
	if early < 0 {
		if length > 1 { // one byte is a probe whether the peer is alive
			d.tell(c, side, TCPRetransmit, min(length, -early), s.seq, p)
		}
		if length <= -early {
			return
		}
		n := min(-early, len(s.data))
		s = ahead{h.next, s.data[n:], s.missing - (-early - n)}
	}
	if early > 0 {
		d.keep(c, side, s, p)
	} else {
		if len(h.ahead) > 0 && c.number >= 0 {
			d.tell(c, side, TCPRetransmit, length, s.seq, p)
		}
		d.take(c, side, s, p)
	}
	d.catchUp(c, side, p)
}

// keep holds a segment that came early. Copies are in order of their numbers.
func (d *Decoder) keep(c *connection, side int, s ahead, p *Packet) {
	h := &c.halves[side]
	i := len(h.ahead)
	for i > 0 && int32(h.ahead[i-1].seq-s.seq) > 0 {
		i--
	}
	if i > 0 && h.ahead[i-1].seq == s.seq {
		if len(s.data) > 1 {
			d.tell(c, side, TCPRetransmit, len(s.data)+s.missing, s.seq, p)
		}
		return
	}
	s.data = append([]byte(nil), s.data...)
	h.ahead = append(h.ahead, ahead{})
	copy(h.ahead[i+1:], h.ahead[i:])
	h.ahead[i] = s
	h.aheadBytes += len(s.data)
}

// catchUp takes the segments that came early and are due. A gap is given up where the peer has acknowledged it, which
// says that the capture lacks it, and where too much waits behind it.
func (d *Decoder) catchUp(c *connection, side int, p *Packet) {
	h := &c.halves[side]
	for len(h.ahead) > 0 && !c.other {
		s := h.ahead[0]
		length := len(s.data) + s.missing
		early := int(int32(s.seq - h.next))
		if early > 0 {
			missed := h.hasAck && int32(h.acked-s.seq) >= 0
			if !missed && h.aheadBytes <= maxAhead && len(h.ahead) <= maxAhead/256 {
				return
			}
			d.tell(c, side, TCPHole, early, h.next, p)
			h.next = s.seq
			h.mode, h.buf, h.missing = searchMode, h.buf[:0], 0
			early = 0
		}
		h.ahead = h.ahead[1:]
		h.aheadBytes -= len(s.data)
		if length > -early {
			n := min(-early, len(s.data))
			d.take(c, side, ahead{h.next, s.data[n:], s.missing - (-early - n)}, p)
		}
	}
}

// take appends bytes that are in order to the stream of a direction.
func (d *Decoder) take(c *connection, side int, s ahead, p *Packet) {
	h := &c.halves[side]
	h.next += uint32(len(s.data) + s.missing)
	if h.mode == searchMode {
		if !begins(s.data) || h.markers {
			return
		}
		h.mode, h.buf, h.missing = fpduMode, h.buf[:0], 0
	}
	h.buf = append(h.buf, s.data...)
	d.deframe(c, side, p)
	if len(h.buf) > 0 && p.Comment != "" {
		h.comment = p.Comment
	}
	if s.missing == 0 || c.other {
		return
	}
	if n := h.needs(); n < s.missing || n > maxFPDU { // where the next one begins is not in the capture
		if c.number >= 0 && h.mode != searchMode {
			d.tell(c, side, TCPHole, s.missing, h.next-uint32(s.missing), p)
		}
		h.mode, h.buf, h.missing = searchMode, h.buf[:0], 0
		return
	}
	h.buf = append(h.buf, make([]byte, s.missing)...)
	h.missing += s.missing
	d.deframe(c, side, p)
}

// tell hands over an item about a connection's bytes, if it is one of iWARP.
func (d *Decoder) tell(c *connection, side int, kind ItemKind, n int, seq uint32, p *Packet) {
	if c.number < 0 {
		return
	}
	it := d.newItem(c, side, kind, p)
	it.Bytes, it.Seq = n, seq-c.halves[side].base
	d.emit(p)
}
