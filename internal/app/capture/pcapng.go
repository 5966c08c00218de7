// SPDX-License-Identifier: Apache-2.0

package capture

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/bits"
	"time"
)

// Block types of a pcapng (draft-ietf-opsawg-pcapng section 4).
const (
	blockSection   = 0x0a0d0d0a
	blockInterface = 1
	blockPacket    = 2 // obsolete
	blockSimple    = 3
	blockEnhanced  = 6
)

// Option codes (sections 3.5, 4.2 and 4.3).
const (
	optEnd        = 0
	optComment    = 1
	optFlags      = 2 // of a packet
	optResolution = 9 // of an interface
	optOffset     = 14
)

const (
	byteOrderMagic = 0x1a2b3c4d
	blockHeaderLen = 8
	maxInterfaces  = 1 << 16
	maxOptions     = 1 << 20 // bytes of options that are read
)

// iface is an interface of a section.
type iface struct {
	link   LinkType
	snap   uint32
	resol  uint8 // of timestamps: 10 to the minus this, or 2 if the top bit is set
	offset int64 // seconds
}

// nextBlock reads blocks until it has a packet.
func (c *Reader) nextBlock(f *Frame) error {
	for {
		typ, body, err := c.block()
		if err != nil {
			return err
		}
		switch typ {
		case blockInterface:
			err = c.newInterface(body)
		case blockEnhanced:
			return c.enhanced(f, body)
		case blockPacket:
			if len(body) < 20 {
				return c.short(typ)
			}
			return c.packet(f, body, uint32(c.order.Uint16(body)), 4)
		case blockSimple:
			return c.simple(f, body)
		}
		if err != nil {
			return err
		}
	}
}

// block reads a block's type and body (section 3.1). It returns no body of blocks that are not needed.
func (c *Reader) block() (typ uint32, body []byte, err error) {
	if _, err := c.in.Peek(1); err != nil {
		return 0, nil, err
	}
	b, err := c.read(blockHeaderLen)
	if err != nil {
		return 0, nil, err
	}
	typ = c.order.Uint32(b)
	if typ == blockSection {
		magic, err := c.in.Peek(4)
		if err != nil {
			return 0, nil, cut(err)
		}
		switch {
		case binary.BigEndian.Uint32(magic) == byteOrderMagic:
			c.order = binary.BigEndian
		case binary.LittleEndian.Uint32(magic) == byteOrderMagic:
			c.order = binary.LittleEndian
		default:
			return 0, nil, fmt.Errorf("the section behind frame %d has no byte order: the file is damaged", c.num)
		}
		c.interfaces = nil // a section numbers its interfaces anew
	}
	n := c.order.Uint32(b[4:])
	if n < blockHeaderLen+4 || n%4 != 0 {
		return 0, nil, fmt.Errorf("the block behind frame %d has a length of %d bytes: the file is damaged", c.num, n)
	}
	rest := int64(n) - blockHeaderLen
	switch typ {
	case blockInterface, blockPacket, blockSimple, blockEnhanced:
	default:
		return typ, nil, c.discard(rest)
	}
	if rest > maxFrame+maxOptions {
		return 0, nil, fmt.Errorf("the block behind frame %d has %d bytes, more than any frame: the file is damaged",
			c.num, n)
	}
	if body, err = c.read(int(rest)); err != nil {
		return 0, nil, err
	}
	return typ, body[:rest-4], nil
}

// discard skips n bytes of the file.
func (c *Reader) discard(n int64) error {
	for n > 0 {
		skipped, err := c.in.Discard(int(min(n, 1<<20)))
		if err != nil {
			return cut(err)
		}
		n -= int64(skipped)
	}
	return nil
}

func (c *Reader) short(typ uint32) error {
	return fmt.Errorf("the block of type %d behind frame %d is too short: the file is damaged", typ, c.num)
}

// options calls take for each option.
func (c *Reader) options(b []byte, take func(code uint16, value []byte)) {
	for len(b) >= 4 {
		code, n := c.order.Uint16(b), int(c.order.Uint16(b[2:]))
		if b = b[4:]; code == optEnd || n > len(b) {
			return
		}
		take(code, b[:n])
		b = b[min((n+3)&^3, len(b)):]
	}
}

// newInterface reads an interface description (section 4.2).
func (c *Reader) newInterface(b []byte) error {
	if len(b) < 8 {
		return c.short(blockInterface)
	}
	if len(c.interfaces) == maxInterfaces {
		return fmt.Errorf("more than %d interfaces: the file is damaged", maxInterfaces)
	}
	i := iface{link: LinkType(c.order.Uint16(b)), snap: c.order.Uint32(b[4:]), resol: 6}
	c.options(b[8:], func(code uint16, v []byte) {
		switch {
		case code == optResolution && len(v) == 1:
			i.resol = v[0]
		case code == optOffset && len(v) == 8:
			i.offset = int64(c.order.Uint64(v))
		}
	})
	c.interfaces = append(c.interfaces, i)
	return nil
}

// enhanced reads an enhanced packet (section 4.3).
func (c *Reader) enhanced(f *Frame, b []byte) error {
	if len(b) < 20 {
		return c.short(blockEnhanced)
	}
	return c.packet(f, b, c.order.Uint32(b), 4)
}

// packet reads the fields that enhanced packets and obsolete ones have in common; at is the timestamp's offset.
func (c *Reader) packet(f *Frame, b []byte, number uint32, at int) error {
	i, err := c.iface(number)
	if err != nil {
		return err
	}
	f.At = i.time(uint64(c.order.Uint32(b[at:]))<<32 | uint64(c.order.Uint32(b[at+4:])))
	f.Link = i.link
	captured, length := c.order.Uint32(b[12:]), c.order.Uint32(b[16:])
	if int64(captured) > int64(len(b)-20) || captured > maxFrame {
		return fmt.Errorf("frame %d has %d bytes in a block of %d: the file is damaged", c.num+1, captured, len(b))
	}
	f.Data, f.Length = b[20:20+captured], onWire(length, captured)
	c.options(b[20+min(int(captured+3)&^3, len(b)-20):], func(code uint16, v []byte) {
		switch {
		case code == optComment && f.Comment == "":
			f.Comment = string(v)
		case code == optFlags && len(v) == 4:
			f.Direction = Direction(c.order.Uint32(v) & 3)
		}
	})
	return nil
}

// simple reads a simple packet (section 4.4). It has neither a time nor options, and is of the first interface.
func (c *Reader) simple(f *Frame, b []byte) error {
	if len(b) < 4 {
		return c.short(blockSimple)
	}
	i, err := c.iface(0)
	if err != nil {
		return err
	}
	f.Link, f.At, f.Length = i.link, time.Unix(0, 0).UTC(), onWire(c.order.Uint32(b), 0)
	f.Data = b[4:]
	if f.Length < len(f.Data) { // the rest is padding
		f.Data = f.Data[:f.Length]
	}
	if i.snap > 0 && int64(len(f.Data)) > int64(i.snap) {
		f.Data = f.Data[:i.snap]
	}
	return nil
}

func (c *Reader) iface(number uint32) (*iface, error) {
	if int64(number) >= int64(len(c.interfaces)) {
		return nil, fmt.Errorf("frame %d is of interface %d of %d: the file is damaged", c.num+1, number,
			len(c.interfaces))
	}
	return &c.interfaces[number], nil
}

// time returns the time of a timestamp.
func (i *iface) time(stamp uint64) time.Time {
	const second = 1_000_000_000
	digits := i.resol & 0x7f
	var seconds, nanos uint64
	switch {
	case i.resol&0x80 != 0 && digits < 64:
		seconds = stamp >> digits
		high, low := bits.Mul64(stamp&(1<<digits-1), second)
		nanos = low >> digits
		if digits > 0 {
			nanos |= high << (64 - digits)
		}
	case i.resol&0x80 == 0 && digits <= 19:
		unit := uint64(1)
		for range digits {
			unit *= 10
		}
		seconds = stamp / unit
		if unit <= second {
			nanos = stamp % unit * (second / unit)
		} else {
			nanos = stamp % unit / (unit / second)
		}
	}
	if seconds > math.MaxInt32<<2 { // beyond the year 2242: the time of a damaged file
		return time.Unix(0, 0).UTC()
	}
	return time.Unix(int64(seconds)+min(max(i.offset, -math.MaxInt32), math.MaxInt32), int64(nanos)).UTC()
}
