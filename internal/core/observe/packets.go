// SPDX-License-Identifier: Apache-2.0

package observe

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/ramjet-rdma/ramjet/verbs"
)

// A watcher of packets sends a [PacketRequest] and is sent [Packets], again and again. Both directions begin with
// this header and the version, and go on with records as in a snapshot.
const packetMagic = "ramjetP"

// PacketRequest asks for the last packets of a queue pair. All requests of one connection are for one queue pair.
type PacketRequest struct {
	Device string
	QPN    verbs.QPN
	Most   int // packets
}

// Packets are the last packets of a queue pair.
type Packets struct {
	Wire    Wire
	Seen    uint64 // packets since the capture began
	Packets []Packet
	Refused string // why there are none; empty: there are
}

func (r *PacketRequest) code(c *codec) {
	c.text(&r.Device)
	num(c, &r.QPN)
	num(c, &r.Most)
}

func (p *Packets) code(c *codec) {
	num(c, &p.Wire)
	num(c, &p.Seen)
	c.text(&p.Refused)
}

func (e *Address) code(c *codec) {
	c.gid(&e.GID)
	num(c, &e.LID)
	num(c, &e.Port)
}

func (p *Packet) code(c *codec) {
	num(c, &p.At)
	c.flag(&p.Sent)
	p.Local.code(c)
	p.Peer.code(c)
	num(c, &p.Length)
	if c.reading {
		p.Head = append([]byte(nil), c.bytes(headLen)...)
	} else {
		c.buf = append(binary.AppendUvarint(c.buf, uint64(len(p.Head))), p.Head...)
	}
	c.text(&p.Comment)
}

// appendRecord appends a record with the fields that code writes.
func appendRecord(b []byte, c *codec, t recordType, code func(*codec)) []byte {
	c.buf = c.buf[:0]
	code(c)
	b = binary.AppendUvarint(append(b, byte(t)), uint64(len(c.buf)))
	return append(b, c.buf...)
}

// PacketStream is one end of a connection by which packets are watched.
type PacketStream struct {
	from       reader
	to         io.Writer
	headerRead bool // the other end's header has come
	headerSent bool // the own header has been sent
	out        []byte
}

// NewPacketStream makes the end of a connection. Its owner bounds the time that reads and writes
// take.
func NewPacketStream(rw io.ReadWriter) *PacketStream {
	return &PacketStream{from: reader{in: bufio.NewReaderSize(rw, 4<<10)}, to: rw}
}

// SendRequest sends a request.
func (s *PacketStream) SendRequest(r *PacketRequest) error {
	s.begin()
	s.out = appendRecord(s.out, &codec{}, requestRecord, r.code)
	return s.send()
}

// ReadRequest reads a request.
func (s *PacketStream) ReadRequest(r *PacketRequest) error {
	if err := s.readHeader(); err != nil {
		return err
	}
	t, err := s.from.next()
	if err != nil {
		return err
	}
	if t != requestRecord {
		return fmt.Errorf("record %d is no request", t)
	}
	*r = PacketRequest{}
	r.code(&s.from.codec)
	return s.from.codec.err
}

// SendReply sends the packets that a request asked for.
func (s *PacketStream) SendReply(p *Packets) error {
	s.begin()
	var c codec
	s.out = appendRecord(s.out, &c, packetsRecord, p.code)
	for i := range p.Packets {
		s.out = appendRecord(s.out, &c, packetRecord, p.Packets[i].code)
	}
	s.out = appendRecord(s.out, &c, endRecord, func(*codec) {})
	return s.send()
}

// ReadReply reads the answer to a request.
func (s *PacketStream) ReadReply() (*Packets, error) {
	if err := s.readHeader(); err != nil {
		return nil, err
	}
	p := &Packets{}
	for {
		t, err := s.from.next()
		if err != nil {
			return nil, err
		}
		c := &s.from.codec
		switch t {
		case packetsRecord:
			p.code(c)
		case packetRecord:
			if len(p.Packets) == ringSize {
				return nil, fmt.Errorf("the process sent more than %d packets", ringSize)
			}
			add(&p.Packets).code(c)
		case endRecord:
			return p, nil
		default:
			return nil, fmt.Errorf("record %d is none of an answer", t)
		}
		if c.err != nil {
			return nil, c.err
		}
	}
}

// begin empties the buffer, but for the header if it has not been sent.
func (s *PacketStream) begin() {
	s.out = s.out[:0]
	if !s.headerSent {
		s.out = append(append(s.out, packetMagic...), version)
		s.headerSent = true
	}
}

func (s *PacketStream) send() error {
	_, err := s.to.Write(s.out)
	return err
}

// readHeader reads the other end's header, once.
func (s *PacketStream) readHeader() error {
	if s.headerRead {
		return nil
	}
	var head [len(packetMagic) + 1]byte
	if _, err := io.ReadFull(s.from.in, head[:]); err != nil {
		return truncated(err)
	}
	if string(head[:len(packetMagic)]) != packetMagic {
		return errors.New("this is no watcher of packets")
	}
	if v := head[len(packetMagic)]; v != version {
		return fmt.Errorf("the other process watches packets by version %d, this one by version %d: use the command of its version of Ramjet", v, version)
	}
	s.headerRead = true
	return nil
}
