// SPDX-License-Identifier: Apache-2.0

package capture

import (
	"bufio"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"time"
)

// LinkType says with which header a frame begins.
type LinkType uint16

// The link types that are read.
const (
	LinkNull       LinkType = 0   // loopback of BSD: the address family in the host's byte order
	LinkEthernet   LinkType = 1   //
	LinkRawBSD     LinkType = 12  // raw IP where it has its number from the operating system
	LinkRawOpenBSD LinkType = 14  //
	LinkRaw        LinkType = 101 // raw IP
	LinkLoop       LinkType = 108 // loopback of OpenBSD: the address family in network byte order
	LinkSLL        LinkType = 113 // Linux cooked capture
	LinkERF        LinkType = 197 // a record of the ERF format
	LinkIPv4       LinkType = 228 //
	LinkIPv6       LinkType = 229 //
	LinkInfiniBand LinkType = 247 // the LRH
	LinkSLL2       LinkType = 276 // Linux cooked capture, version 2
)

// Direction says which way a packet went, seen from where it was captured.
type Direction uint8

// The directions; the zero Direction is unknown.
const (
	Inbound  Direction = 1
	Outbound Direction = 2
)

// Frame is a frame of a capture.
type Frame struct {
	Num       int // from 1, as Wireshark counts
	At        time.Time
	Link      LinkType
	Data      []byte // as far as it was captured; valid until the next call of Next
	Length    int    // bytes on the wire
	Direction Direction
	Comment   string
}

// ErrCut says that a file ends in the middle of a frame, as one does that is still being written. All frames
// before it have been read.
var ErrCut = errors.New("the file ends in the middle of a frame")

// maxFrame is the longest frame that is taken; segmentation offload makes frames of some 100 KiB.
const maxFrame = 1 << 20

// readAhead is how much of a file is read at once.
const readAhead = 1 << 16

// Reader reads the frames of a file.
type Reader struct {
	in    *bufio.Reader
	order binary.ByteOrder
	num   int
	buf   []byte
	next  func(*Frame) error

	link  LinkType // of a pcap
	nanos bool     // a pcap's timestamps are of nanoseconds

	interfaces []iface // of a pcapng's section
}

// NewReader returns a reader of a pcap or pcapng file, which may be compressed with gzip. For other files the error
// has their format.
func NewReader(r io.Reader) (*Reader, error) {
	in := bufio.NewReaderSize(r, readAhead)
	if m, _ := in.Peek(2); len(m) == 2 && m[0] == 0x1f && m[1] == 0x8b {
		z, err := gzip.NewReader(in)
		if err != nil {
			return nil, fmt.Errorf("not a gzip file: %w", err)
		}
		in = bufio.NewReaderSize(z, readAhead)
	}
	magic, err := in.Peek(4)
	if err != nil {
		if errors.Is(err, io.EOF) {
			err = fmt.Errorf("%d bytes are not a capture: give a pcap or pcapng file", len(magic))
		}
		return nil, err
	}
	c := &Reader{in: in, order: binary.LittleEndian}
	switch binary.BigEndian.Uint32(magic) {
	case 0x0a0d0d0a:
		c.next = c.nextBlock
		return c, nil
	case 0xa1b2c3d4:
		c.order = binary.BigEndian
	case 0xa1b23c4d:
		c.order, c.nanos = binary.BigEndian, true
	case 0xd4c3b2a1:
	case 0x4d3cb2a1:
		c.nanos = true
	default:
		return nil, fmt.Errorf("neither pcap nor pcapng: the file begins with % x", magic)
	}
	c.next = c.nextRecord
	return c, c.pcapHeader()
}

// Next reads the next frame. The error is io.EOF after the last one, ErrCut, or a defect of the file.
func (c *Reader) Next(f *Frame) error {
	*f = Frame{}
	if err := c.next(f); err != nil {
		return err
	}
	c.num++
	f.Num = c.num
	return nil
}

// read fills the buffer with n bytes.
func (c *Reader) read(n int) ([]byte, error) {
	if cap(c.buf) < n {
		c.buf = make([]byte, n, max(n, 4096))
	}
	c.buf = c.buf[:n]
	_, err := io.ReadFull(c.in, c.buf)
	return c.buf, cut(err)
}

// cut makes an end in the middle ErrCut.
func cut(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return ErrCut
	}
	return err
}

const (
	pcapHeaderLen   = 24
	recordHeaderLen = 16
)

// pcapHeader reads the header of a pcap file (draft-ietf-opsawg-pcap section 4). The link type's upper bits may
// tell the length of an FCS; lengths of IP and GRH tell that better.
func (c *Reader) pcapHeader() error {
	b, err := c.read(pcapHeaderLen)
	if err != nil {
		return err
	}
	if major := c.order.Uint16(b[4:]); major != 2 {
		return fmt.Errorf("pcap of version %d: only version 2 is known", major)
	}
	c.link = LinkType(c.order.Uint32(b[20:]))
	return nil
}

// nextRecord reads a packet record of a pcap (section 5).
func (c *Reader) nextRecord(f *Frame) error {
	if _, err := c.in.Peek(1); err != nil {
		return err
	}
	b, err := c.read(recordHeaderLen)
	if err != nil {
		return err
	}
	fraction := int64(c.order.Uint32(b[4:]))
	if !c.nanos {
		fraction *= 1000
	}
	f.At = time.Unix(int64(c.order.Uint32(b)), fraction).UTC()
	f.Link = c.link
	return c.data(f, c.order.Uint32(b[8:]), c.order.Uint32(b[12:]))
}

// data reads the bytes of a pcap's frame.
func (c *Reader) data(f *Frame, captured, length uint32) error {
	if captured > maxFrame {
		return fmt.Errorf("frame %d has %d bytes, more than any frame: the file is damaged", c.num+1, captured)
	}
	var err error
	f.Data, err = c.read(int(captured))
	f.Length = onWire(length, captured)
	return err
}

// onWire is a frame's length as the file tells it, within reason.
func onWire(length, captured uint32) int { return int(max(min(length, maxFrame), captured)) }
