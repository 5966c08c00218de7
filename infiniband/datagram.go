// SPDX-License-Identifier: Apache-2.0

package infiniband

import (
	"encoding/binary"
	"strings"
	"unicode"

	"github.com/ramjet-rdma/ramjet/internal/engine/node"
)

// Cables to other hosts are carried over UDP, one frame per datagram. Each end chooses a token, which all datagrams
// to it carry; others are ignored.
//
//	+-----+-----+---------+------+-----------------------+------------------------+
//	| 'R' | 'C' | version | kind | the receiver's token  | content, by the kind   |
//	+-----+-----+---------+------+-----------------------+------------------------+
//	   1     1       1       1              8
//
// Numbers are in network order. The joining end sends hello with token 0, and gets a challenge, which only the
// owner of its address receives. Its second hello carries the challenge, and is answered with welcome or refused.
type datagramKind uint8

const (
	datagramHello     datagramKind = iota + 1 // token of the sender, challenge, width, speed, port, far end, own end
	datagramChallenge                         // challenge
	datagramWelcome                           // token of the sender, width, speed
	datagramRefused                           // why
	// epoch of the sender's link (0: down), last known epoch of the receiver's
	datagramAlive
	datagramFrame // epoch of the sender's link, frame
	datagramBye   // whether the cable has been pulled
)

const (
	cableVersion   = 1
	datagramHeader = 12
	frameHeader    = datagramHeader + 4
	challengeLen   = 16
)

// datagram is a received datagram, or one to send. Its kind decides which fields it has.
type datagram struct {
	kind  datagramKind
	token uint64 // the receiver's

	from        uint64 // the sender's token
	challenge   [challengeLen]byte
	width       node.Width
	speed       node.Speed
	port        uint8  // at the receiver
	to, own     string // the node of that port; a description of the sender's end
	why         string
	epoch, seen uint32
	frame       []byte
	pulled      bool
}

// append appends the datagram. Strings are cut to 255 bytes.
func (d *datagram) append(b []byte) []byte {
	b = append(b, 'R', 'C', cableVersion, byte(d.kind))
	b = binary.BigEndian.AppendUint64(b, d.token)
	text := func(s string) {
		s = s[:min(len(s), 255)]
		b = append(append(b, byte(len(s))), s...)
	}
	switch d.kind {
	case datagramHello:
		b = binary.BigEndian.AppendUint64(b, d.from)
		b = append(b, d.challenge[:]...)
		b = append(b, byte(d.width), byte(d.speed))
		b = append(b, d.port)
		text(d.to)
		text(d.own)
	case datagramChallenge:
		b = append(b, d.challenge[:]...)
	case datagramWelcome:
		b = binary.BigEndian.AppendUint64(b, d.from)
		b = append(b, byte(d.width), byte(d.speed))
	case datagramRefused:
		text(d.why)
	case datagramAlive:
		b = binary.BigEndian.AppendUint32(b, d.epoch)
		b = binary.BigEndian.AppendUint32(b, d.seen)
	case datagramFrame:
		b = binary.BigEndian.AppendUint32(b, d.epoch)
		b = append(b, d.frame...)
	case datagramBye:
		pulled := byte(0)
		if d.pulled {
			pulled = 1
		}
		b = append(b, pulled)
	}
	return b
}

// fieldReader reads the fields of a datagram. Beyond its end they are zero, and bad is set.
type fieldReader struct {
	b   []byte
	bad bool
}

func (c *fieldReader) bytes(n int) []byte {
	if len(c.b) < n {
		c.bad, c.b = true, nil
		return make([]byte, n)
	}
	b := c.b[:n]
	c.b = c.b[n:]
	return b
}

func (c *fieldReader) uint8() uint8   { return c.bytes(1)[0] }
func (c *fieldReader) uint32() uint32 { return binary.BigEndian.Uint32(c.bytes(4)) }
func (c *fieldReader) uint64() uint64 { return binary.BigEndian.Uint64(c.bytes(8)) }
func (c *fieldReader) text() string   { return string(c.bytes(int(c.uint8()))) }

// decode decodes a datagram; its frame remains in b. It returns false if the datagram is malformed or not of this
// protocol. A datagram of another version of the protocol yields that version and false.
func (d *datagram) decode(b []byte) (version uint8, ok bool) {
	*d = datagram{}
	c := fieldReader{b: b}
	if m := c.bytes(2); m[0] != 'R' || m[1] != 'C' {
		return 0, false
	}
	version = c.uint8()
	d.kind, d.token = datagramKind(c.uint8()), c.uint64()
	if c.bad || version != cableVersion {
		return version, false
	}
	switch d.kind {
	case datagramHello:
		d.from = c.uint64()
		d.challenge = [challengeLen]byte(c.bytes(challengeLen))
		d.width, d.speed = node.Width(c.uint8()), node.Speed(c.uint8())
		d.port, d.to, d.own = c.uint8(), c.text(), c.text()
	case datagramChallenge:
		d.challenge = [challengeLen]byte(c.bytes(challengeLen))
	case datagramWelcome:
		d.from = c.uint64()
		d.width, d.speed = node.Width(c.uint8()), node.Speed(c.uint8())
	case datagramRefused:
		d.why = c.text()
	case datagramAlive:
		d.epoch, d.seen = c.uint32(), c.uint32()
	case datagramFrame:
		d.epoch = c.uint32()
		d.frame, c.b = c.b, nil
	case datagramBye:
		pulled := c.uint8()
		d.pulled = pulled == 1
		c.bad = c.bad || pulled > 1
	default:
		return version, false
	}
	return version, !c.bad && len(c.b) == 0
}

// printable returns a peer's text for people without characters that would control their terminals.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return unicode.ReplacementChar
	}, s)
}
