// SPDX-License-Identifier: Apache-2.0

package channel

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"testing"
	"time"

	"github.com/ramjet-rdma/ramjet/rdmatest"
	"github.com/ramjet-rdma/ramjet/smbdirect"
	"github.com/ramjet-rdma/ramjet/smbdirect/internal/frame"
	"github.com/ramjet-rdma/ramjet/smbdirect/internal/kit"
	"github.com/ramjet-rdma/ramjet/smbdirect/internal/smb2"
	"github.com/ramjet-rdma/ramjet/smbdirect/wire"
)

const patience = kit.Patience

var (
	ok      = kit.OK
	within  = kit.Within
	kinds   = kit.Kinds
	message = kit.Message
)

var le = binary.LittleEndian

// readRequest returns a plain READ.
func readRequest(id uint64, n int) []byte {
	b := message(smb2.Read, 0, id, make([]byte, smb2.BodySize+1))
	le.PutUint32(b[smb2.LengthAt:], uint32(n))
	return b
}

// writeRequest returns a plain WRITE.
func writeRequest(id uint64, data []byte) []byte {
	b := message(smb2.Write, 0, id, make([]byte, smb2.BodySize))
	le.PutUint16(b[smb2.DataOffsetAt:], smb2.HeaderSize+smb2.BodySize)
	le.PutUint32(b[smb2.LengthAt:], uint32(len(data)))
	return append(b, data...)
}

// readResponse returns a response to a READ, with bytes inline and through the channel.
func readResponse(id uint64, data []byte, remote int) []byte {
	b := message(smb2.Read, smb2.FlagResponse, id, make([]byte, smb2.AnswerSize))
	b[smb2.DataOffsetAt] = smb2.HeaderSize + smb2.AnswerSize
	le.PutUint32(b[smb2.LengthAt:], uint32(len(data)))
	le.PutUint32(b[smb2.RemainingAt:], uint32(remote))
	return append(b, data...)
}

// setting is a client that speaks SMB over TCP, and a server on SMB Direct.
type setting struct {
	t      *testing.T
	client net.Conn
	server *smbdirect.Conn
	memory *smbdirect.Memory
}

// set makes a setting, in which a dialect was negotiated.
func set(t *testing.T, kind string, dialect uint16) *setting {
	t.Helper()
	s := &setting{t: t}
	o := smbdirect.Options{Negotiate: patience, Linger: patience, MaxReadWriteSize: 300000, MaxFragmentedSize: 200000}
	dev, clients := rdmatest.PairOf(t, kind)
	l, err := smbdirect.Listen(t.Context(), dev, ":0", smbdirect.ListenOptions{Options: o})
	ok(t, err)
	defer l.Close()
	c, err := smbdirect.Dial(within(t), clients, l.Addr().String(), o)
	ok(t, err)
	s.client = NetConn(c)
	t.Cleanup(func() { s.client.Close() })
	ok(t, s.client.SetDeadline(time.Now().Add(patience)))
	s.server, err = l.Accept(within(t))
	ok(t, err)
	t.Cleanup(func() { s.server.Close() })
	s.memory, err = s.server.AllocMemory(o.MaxReadWriteSize)
	ok(t, err)
	b := message(smb2.Negotiate, smb2.FlagResponse, 0, make([]byte, 64))
	le.PutUint16(b[smb2.DialectAt:], dialect)
	s.respond(b)
	s.gets(b)
	return s
}

// ask writes a request in frames, and returns the server's input.
func (s *setting) ask(b []byte) []byte {
	s.t.Helper()
	frame := append(binary.BigEndian.AppendUint32(nil, uint32(len(b))), b...)
	for _, part := range [][]byte{frame[:2], frame[2:4], frame[4:50], frame[50:]} {
		_, err := s.client.Write(part)
		ok(s.t, err)
	}
	got, err := s.server.ReadMessage(within(s.t))
	ok(s.t, err)
	return got
}

func (s *setting) respond(b []byte) {
	s.t.Helper()
	ok(s.t, s.server.WriteMessage(within(s.t), b))
}

// gets checks the bytes that the client reads.
func (s *setting) gets(want []byte) {
	s.t.Helper()
	got := make([]byte, 4+len(want))
	_, err := io.ReadFull(s.client, got)
	ok(s.t, err)
	if int(binary.BigEndian.Uint32(got)) != len(want) || !bytes.Equal(got[4:], want) {
		s.t.Errorf("the client gets another message than the plain one of %d bytes", len(want))
	}
}

// descriptors returns the descriptors of a request through the channel, and checks the bytes around them.
func (s *setting) descriptors(b []byte) []wire.Descriptor {
	s.t.Helper()
	var h smb2.Header
	h.Decode(b)
	channel, at := h.Channel(b)
	if channel != smb2.ChannelV1Invalidate || len(b) != smb2.HeaderSize+smb2.BodySize+wire.DescriptorSize {
		s.t.Fatalf("channel %d in %d bytes", channel, len(b))
	}
	off, n := le.Uint16(b[at+smb2.ChannelOffset:]), le.Uint16(b[at+smb2.ChannelLength:])
	ds, _, err := wire.DecodeDescriptors(b[off:][:n], 1)
	ok(s.t, err)
	return ds
}

// A client that knows nothing of RDMA reads and writes through the channel.
func TestChannel(t *testing.T) {
	kinds(t, func(t *testing.T, kind string) {
		s := set(t, kind, 0x311)
		data := bytes.Repeat([]byte("channel!"), 30000)
		for i := range uint64(3) {
			ds := s.descriptors(s.ask(readRequest(2*i, 2*len(data[:120000]))))
			copy(s.memory.Bytes(), data)
			ok(t, s.server.WriteRemote(within(t), s.memory, len(data), ds))
			b := readResponse(2*i, nil, len(data))
			if i == 1 { // the server need not invalidate
				s.respond(b)
			} else {
				ok(t, s.server.WriteMessageInvalidate(within(t), b, ds[0].Token))
			}
			s.gets(readResponse(2*i, data, 0))

			clear(s.memory.Bytes())
			ds = s.descriptors(s.ask(writeRequest(2*i+1, data)))
			ok(t, s.server.ReadRemote(within(t), s.memory, len(data), ds))
			if !bytes.Equal(s.memory.Bytes()[:len(data)], data) {
				t.Error("other bytes were written")
			}
			b = message(smb2.Write, smb2.FlagResponse, 2*i+1, make([]byte, 16))
			s.respond(b)
			s.gets(b)
		}
		// An error, and data inline, come as they are.
		s.ask(readRequest(20, 5000))
		b := message(smb2.Read, smb2.FlagResponse, 20, make([]byte, 9))
		le.PutUint32(b[8:], 0xc0000011)
		s.respond(b)
		s.gets(b)
		s.ask(readRequest(21, 5000))
		b = readResponse(21, make([]byte, 100), 0)
		s.respond(b)
		s.gets(b)
	})
}

// Requests that cannot go through the channel pass as they are.
func TestPassing(t *testing.T) {
	kinds(t, func(t *testing.T, kind string) {
		signed, compound := readRequest(1, 100000), readRequest(2, 100000)
		le.PutUint32(signed[16:], smb2.FlagSigned)
		le.PutUint32(compound[20:], 128)
		s := set(t, kind, 0x302)
		for _, b := range [][]byte{signed, compound, readRequest(3, threshold-1), readRequest(4, 300001),
			writeRequest(5, make([]byte, threshold-1)), message(smb2.Read, 0, 6, nil),
			bytes.Repeat([]byte("\xfdSMB"), 99)} {
			if got := s.ask(b); !bytes.Equal(got, b) {
				t.Errorf("the server gets %x, want %x", got, b)
			}
			s.respond(b)
			s.gets(b)
		}
		for id := range uint64(maxCalls) {
			s.descriptors(s.ask(readRequest(100+id, 5000)))
		}
		if b := readRequest(200, 5000); !bytes.Equal(s.ask(b), b) {
			t.Error("more requests use the channel than there may be")
		}
		for _, bad := range [][]byte{{0, 0, 0, 0}, {1, 0, 0, 1}, {0, 0xff, 0xff, 0xff}} {
			if _, err := set(t, kind, 0x300).client.Write(append(bad, 1)); err == nil {
				t.Errorf("a frame that begins with %x is taken", bad)
			}
		}
		s = set(t, kind, 0x210)
		if b := readRequest(1, 100000); !bytes.Equal(s.ask(b), b) {
			t.Error("a session of SMB 2.1 uses the channel")
		}
	})
}

// Data longer than a message goes through the channel, however many requests do, and MaxWrite says how long a WRITE may
// be.
func TestLong(t *testing.T) {
	kinds(t, func(t *testing.T, kind string) {
		s := set(t, kind, 0x311)
		c := s.client.(*Conn)
		data := make([]byte, 300000)
		if n := c.MaxWrite(); n != len(data) {
			t.Errorf("%d bytes are written at most, want %d", n, len(data))
		}
		for id := range uint64(maxCalls + 1) {
			s.descriptors(s.ask(writeRequest(100+id, data)))
		}
		if _, err := c.Write([]byte{0, 0x10, 0, 0}); !errors.Is(err, frame.ErrTooLong) {
			t.Error(err)
		}
		inside := c.c.MaxMessage() - smb2.TransformSize - smb2.HeaderSize - smb2.BodySize
		signed := message(smb2.Negotiate, 0, 0, make([]byte, 36))
		le.PutUint16(signed[smb2.HeaderSize+4:], 3)
		for _, b := range [][]byte{signed, bytes.Repeat([]byte("\xfdSMB"), 99)} {
			s := set(t, kind, 0x311)
			s.ask(b)
			if n := s.client.(*Conn).MaxWrite(); n != inside {
				t.Errorf("%d bytes are written at most, want %d", n, inside)
			}
		}
		s = set(t, kind, 0x311)
		signed = message(smb2.Negotiate, smb2.FlagResponse, 0, make([]byte, 64))
		le.PutUint16(signed[smb2.DialectAt:], 0x311)
		le.PutUint16(signed[smb2.HeaderSize+2:], 3)
		s.respond(signed)
		s.gets(signed)
		if n := s.client.(*Conn).MaxWrite(); n != inside {
			t.Errorf("%d bytes are written at most, want %d", n, inside)
		}
	})
}

// A server that says it wrote more than it was asked for ends the connection.
func TestHostileServer(t *testing.T) {
	kinds(t, func(t *testing.T, kind string) {
		s := set(t, kind, 0x300)
		s.ask(readRequest(1, 5000))
		s.respond(readResponse(1, nil, 5001))
		if _, err := s.client.Read(make([]byte, 1)); !errors.Is(err, errAnswer) {
			t.Error(err)
		}
	})
}

// Whatever a client and a server send, data stay within the request and the memory.
func FuzzMessages(f *testing.F) {
	f.Add([]byte{}, []byte{})
	f.Add([]byte{0}, []byte{0})
	f.Add(readRequest(1, 5000), readResponse(1, nil, 5000))
	f.Add(writeRequest(1, make([]byte, 5000)), readResponse(1, make([]byte, 5000), 0))
	f.Fuzz(func(t *testing.T, plain, reply []byte) {
		const most = 10000
		r, ok := decodeRequest(plain, most)
		if !ok {
			return
		}
		if r.length < threshold || r.length > most || r.write != (len(r.data) == r.length) {
			t.Fatalf("%d bytes, of them %d in the message", r.length, len(r.data))
		}
		b := r.append(plain, wire.Descriptor{Length: uint32(r.length)})
		if _, again := decodeRequest(b, most); again {
			t.Fatal("a request through the channel is taken for a plain one")
		}
		var h smb2.Header
		if !h.Decode(reply) {
			return
		}
		n, err := readLength(h, reply, r.length)
		if n > r.length || err != nil && !errors.Is(err, errAnswer) {
			t.Fatalf("%d bytes of %d, %v", n, r.length, err)
		}
		if n > 0 {
			plainRead(reply, make([]byte, n))
		}
	})
}
