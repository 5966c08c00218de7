// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ramjet-rdma/ramjet/rdmatest"
	"github.com/ramjet-rdma/ramjet/smbdirect"
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

// channelRequest returns a READ or WRITE through the channel.
func channelRequest(command uint16, id uint64, channel, length uint32, ds ...wire.Descriptor) []byte {
	body := make([]byte, smb2.BodySize)
	le := binary.LittleEndian
	le.PutUint16(body, 49)
	le.PutUint64(body[8:], 1234)                 // Offset
	copy(body[16:], "the identifier.!")          // FileId
	at, total := 36, len(ds)*wire.DescriptorSize // Channel
	if command == smb2.Write {
		at = 32
		le.PutUint32(body[at+4:], length)
	} else {
		le.PutUint32(body[4:], length)
	}
	le.PutUint32(body[at:], channel)
	le.PutUint16(body[at+8:], smb2.HeaderSize+smb2.BodySize)
	le.PutUint16(body[at+10:], uint16(total))
	for _, d := range ds {
		body = d.Append(body)
	}
	return message(command, 0, id, body)
}

// response returns a response to a request: status, and for a READ data.
func response(request []byte, status uint32, data []byte) []byte {
	var h smb2.Header
	h.Decode(request)
	body := make([]byte, smb2.AnswerSize)
	le := binary.LittleEndian
	le.PutUint16(body, 17)
	if h.Command == smb2.Read {
		body[2] = smb2.HeaderSize + smb2.AnswerSize
		le.PutUint32(body[4:], uint32(len(data)))
	} else {
		le.PutUint32(body[4:], le.Uint32(request[smb2.LengthAt:]))
	}
	b := message(h.Command, smb2.FlagResponse, h.ID, append(body, data...))
	le.PutUint32(b[8:], status)
	return b
}

// server is the server behind a gateway: it hands out frames, and sends some.
type server struct {
	t    *testing.T
	conn net.Conn
}

func (s *server) next() []byte {
	s.t.Helper()
	var head [4]byte
	_, err := io.ReadFull(s.conn, head[:])
	ok(s.t, err)
	b := make([]byte, binary.BigEndian.Uint32(head[:]))
	_, err = io.ReadFull(s.conn, b)
	ok(s.t, err)
	return b
}

func (s *server) send(b []byte) {
	s.t.Helper()
	_, err := s.conn.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(b))), b...))
	ok(s.t, err)
}

// lines is a log that keeps what it gets.
type lines struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(b)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// connect returns a client of a gateway, the server behind it, and a function that ends the gateway and returns its
// log.
func connect(t *testing.T, kind string, o smbdirect.Options) (*smbdirect.Conn, *server, func() string) {
	t.Helper()
	o.Negotiate, o.Linger = patience, patience
	dev, clients := rdmatest.PairOf(t, kind)
	l, err := smbdirect.Listen(t.Context(), dev, ":0", smbdirect.ListenOptions{Options: o})
	ok(t, err)
	here, there := net.Pipe()
	here.SetDeadline(time.Now().Add(patience))
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	var log lines
	go func() {
		ended <- Serve(ctx, l, Options{Dial: func(context.Context) (net.Conn, error) { return there, nil },
			Timeout: patience, Log: slog.New(slog.NewTextHandler(&log, nil))})
	}()
	c, err := smbdirect.Dial(within(t), clients, l.Addr().String(),
		smbdirect.Options{Negotiate: patience, Linger: patience})
	ok(t, err)
	end := func() string {
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		ended <- context.Canceled
		l.Close()
		return log.String()
	}
	t.Cleanup(func() { end(); c.Close() })
	return c, &server{t, here}, end
}

func write(t *testing.T, c *smbdirect.Conn, b []byte) {
	t.Helper()
	ok(t, c.WriteMessage(within(t), b))
}

func reads(t *testing.T, c *smbdirect.Conn, want []byte) {
	t.Helper()
	got, err := c.ReadMessage(within(t))
	ok(t, err)
	if !bytes.Equal(got, want) {
		t.Errorf("the client gets %x, want %x", got, want)
	}
}

func gets(t *testing.T, s *server, want []byte) {
	t.Helper()
	if got := s.next(); !bytes.Equal(got, want) {
		t.Errorf("the server gets %x, want %x", got, want)
	}
}

// Whatever does not use the channel passes as it is: plain requests, signed ones, other protocols, and bytes.
func TestPassing(t *testing.T) {
	kinds(t, func(t *testing.T, kind string) {
		c, s, _ := connect(t, kind, smbdirect.Options{})
		for _, b := range [][]byte{{1}, []byte("\xfdSMB encrypted"), message(0, 0, 0, make([]byte, 36)),
			message(smb2.Read, smb2.FlagSigned, 1, make([]byte, smb2.BodySize+1)),
			message(smb2.Write, 0, 2, make([]byte, 100000)),
			message(smb2.Read, 0, 3, nil)} {
			write(t, c, b)
			gets(t, s, b)
			s.send(b)
			reads(t, c, b)
		}
	})
}

// A READ through the channel is a plain one for the server, and its data come by RDMA.
func TestRead(t *testing.T) {
	kinds(t, func(t *testing.T, kind string) {
		c, s, _ := connect(t, kind, smbdirect.Options{})
		m, err := c.AllocMemory(10000)
		ok(t, err)
		for i, channel := range []uint32{smb2.ChannelV1, smb2.ChannelV1Invalidate} {
			clear(m.Bytes())
			first, err := m.Expose(within(t), 5000, 1000, true)
			ok(t, err)
			second, err := m.Expose(within(t), 100, 1000, true)
			ok(t, err)
			id := uint64(7 + i)
			write(t, c, channelRequest(smb2.Read, id, channel, 1500, first.Descriptor(), second.Descriptor()))
			plain := channelRequest(smb2.Read, id, 0, 1500)
			clear(plain[smb2.HeaderSize+36:])
			plain = append(plain, 0)
			gets(t, s, plain)
			pending := response(plain, smb2.StatusPending, nil)
			s.send(pending)
			reads(t, c, pending)
			data := bytes.Repeat([]byte("ramjet"), 200)
			s.send(response(plain, smb2.StatusSuccess, data))
			want := response(plain, smb2.StatusSuccess, nil)
			binary.LittleEndian.PutUint32(want[smb2.RemainingAt:], uint32(len(data)))
			reads(t, c, want)
			all := make([]byte, 10000)
			copy(all[100:], data[copy(all[5000:6000], data):])
			if !bytes.Equal(m.Bytes(), all) {
				t.Error("other bytes were read")
			}
			ok(t, first.Close())
			ok(t, second.Close())
		}
		// An error comes as it is.
		w, err := m.Expose(within(t), 0, 100, true)
		ok(t, err)
		request := channelRequest(smb2.Read, 9, smb2.ChannelV1Invalidate, 100, w.Descriptor())
		write(t, c, request)
		s.next()
		failed := response(request, 0xc0000011, nil)
		s.send(failed)
		reads(t, c, failed)
		ok(t, w.Close())
	})
}

// The data of a WRITE through the channel come to the server in a plain one.
func TestWrite(t *testing.T) {
	kinds(t, func(t *testing.T, kind string) {
		c, s, _ := connect(t, kind, smbdirect.Options{})
		const size = 300000
		m, err := c.AllocMemory(size)
		ok(t, err)
		for i := range size {
			m.Bytes()[i] = byte(i * i)
		}
		w, err := m.Expose(within(t), 0, size, false)
		ok(t, err)
		write(t, c, channelRequest(smb2.Write, 7, smb2.ChannelV1Invalidate, size, w.Descriptor()))
		plain := channelRequest(smb2.Write, 7, 0, 0)
		clear(plain[smb2.HeaderSize+32:])
		binary.LittleEndian.PutUint16(plain[smb2.DataOffsetAt:], smb2.HeaderSize+smb2.BodySize)
		binary.LittleEndian.PutUint32(plain[smb2.LengthAt:], size)
		plain = append(plain, m.Bytes()...)
		gets(t, s, plain)
		done := response(plain, smb2.StatusSuccess, nil)
		s.send(done)
		reads(t, c, done)
		ok(t, w.Close())
	})
}

// Clients that ask for the impossible, or lie, lose their connection, and the log says why.
func TestHostileClients(t *testing.T) {
	d := wire.Descriptor{Offset: 1 << 40, Token: 7, Length: 100}
	change := func(b []byte, at int, v uint32) []byte {
		binary.LittleEndian.PutUint32(b[at:], v)
		return b
	}
	read := func() []byte { return channelRequest(smb2.Read, 1, smb2.ChannelV1, 100, d) }
	for _, h := range []struct {
		name     string
		messages [][]byte
		says     string
	}{
		{"signed", [][]byte{change(read(), 16, smb2.FlagSigned)}, "cannot sign"},
		{"compound", [][]byte{change(read(), 20, 128)}, "compound"},
		{"second of a compound", [][]byte{append(change(message(5, 0, 0, nil), 20, smb2.HeaderSize), read()...)},
			"compound"},
		{"channel", [][]byte{channelRequest(smb2.Read, 1, 3, 100, d)}, "channel 3"},
		{"no descriptors", [][]byte{channelRequest(smb2.Read, 1, smb2.ChannelV1, 100)}, "0 bytes"},
		{"descriptors outside", [][]byte{change(read(), smb2.HeaderSize+44, 0xffff)}, "in 128 bytes"},
		{"descriptors in the header", [][]byte{change(read(), smb2.HeaderSize+44, 16<<16)}, "at 0"},
		{"too few", [][]byte{channelRequest(smb2.Read, 1, smb2.ChannelV1, 101, d)}, "descriptors have 100"},
		{"too many bytes",
			[][]byte{channelRequest(smb2.Read, 1, smb2.ChannelV1, 1001, d, wire.Descriptor{Length: 1000})},
			"at most 1000"},
		{"last address", [][]byte{channelRequest(smb2.Write, 1, smb2.ChannelV1, 1,
			wire.Descriptor{Offset: 1<<64 - 1, Length: 1})}, "last address"},
		{"data besides", [][]byte{change(channelRequest(smb2.Write, 1, smb2.ChannelV1, 1, d), smb2.LengthAt, 1)},
			"besides"},
		{"the same twice", [][]byte{read(), read()}, "in flight already"},
		// Whether the READ fails or the client's end comes first is open.
		{"no such memory", [][]byte{channelRequest(smb2.Write, 1, smb2.ChannelV1, 100, d)}, ""},
	} {
		t.Run(h.name, func(t *testing.T) {
			kinds(t, func(t *testing.T, kind string) {
				c, s, end := connect(t, kind, smbdirect.Options{MaxReadWriteSize: 1000})
				go io.Copy(io.Discard, s.conn)
				for _, b := range h.messages {
					write(t, c, b)
				}
				if _, err := c.ReadMessage(within(t)); err == nil {
					t.Error("there is an answer")
				}
				if log := end(); !strings.Contains(log, h.says) {
					t.Errorf("the log does not say %q: %s", h.says, log)
				}
			})
		})
	}
}

// A server that answers with more than was asked for, or with a message that is no response, writes nowhere.
func TestHostileServers(t *testing.T) {
	c := call{id: 1, length: 10}
	good := response(channelRequest(smb2.Read, 1, smb2.ChannelV1, 10), smb2.StatusSuccess, make([]byte, 10))
	for name, change := range map[string]func(b []byte) []byte{
		"short":      func(b []byte) []byte { return b[:smb2.HeaderSize+smb2.AnswerSize-1] },
		"too long":   func(b []byte) []byte { b[smb2.LengthAt] = 11; return append(b, 0) },
		"outside":    func(b []byte) []byte { b[smb2.DataOffsetAt]++; return b },
		"the header": func(b []byte) []byte { b[smb2.DataOffsetAt] = 64; return b },
		"signed":     func(b []byte) []byte { b[16] |= smb2.FlagSigned; return b },
		"compound":   func(b []byte) []byte { b[20] = 8; return b },
	} {
		b := change(bytes.Clone(good))
		var h smb2.Header
		h.Decode(b)
		if _, _, err := c.handleResponse(h, b); !errors.Is(err, errAnswer) {
			t.Errorf("%s: %v", name, err)
		}
	}
	var h smb2.Header
	h.Decode(good)
	data, answer, err := c.handleResponse(h, good)
	if err != nil || len(data) != 10 || len(answer) != smb2.HeaderSize+smb2.AnswerSize {
		t.Errorf("%x, %x, %v", data, answer, err)
	}
}

// Whatever a client and a server send, data stay within the message, the request and the bound.
func FuzzMessages(f *testing.F) {
	d := wire.Descriptor{Offset: 1, Token: 2, Length: 100}
	read := channelRequest(smb2.Read, 1, smb2.ChannelV1, 100, d)
	write := channelRequest(smb2.Write, 1, smb2.ChannelV1, 100, d)
	f.Add([]byte{}, []byte{})
	f.Add([]byte{0}, []byte{0})
	f.Add(read, response(read, smb2.StatusSuccess, make([]byte, 100)))
	f.Add(write, response(write, smb2.StatusSuccess, nil))
	f.Add(append(read, write...), read)
	f.Fuzz(func(t *testing.T, request, reply []byte) {
		const most = 200
		c, plain, err := handleRequest(request, most)
		if err != nil || c == nil {
			if plain != nil {
				t.Fatalf("%v with a request", err)
			}
			return
		}
		if c.length > most || len(c.descriptors) > maxDescriptors || len(plain) < smb2.HeaderSize+smb2.BodySize ||
			len(plain) > smb2.HeaderSize+smb2.BodySize+1 {
			t.Fatalf("%+v with %d bytes", c, len(plain))
		}
		if again, _, err := handleRequest(plain, most); again != nil || err != nil {
			t.Fatalf("the plain request is no plain one: %v", err)
		}
		var h smb2.Header
		if !h.Decode(reply) {
			return
		}
		data, answer, err := c.handleResponse(h, reply)
		if len(data) > c.length || err == nil && (data == nil) != (answer == nil) {
			t.Fatalf("%d bytes of %d, %v", len(data), c.length, err)
		}
	})
}
