// SPDX-License-Identifier: Apache-2.0

package valkey_test

import (
	"errors"
	"io"
	"math"
	"net"
	"strings"
	"syscall"
	"testing"

	"github.com/ramjet-rdma/ramjet/cm"
	"github.com/ramjet-rdma/ramjet/valkey"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// A peer that breaks the protocol breaks its own connection, with an error that says how, and nobody else's.
func TestHostilePeers(t *testing.T) {
	send := func(m valkey.Message) func(*testing.T, *cm.Conn, valkey.Message) {
		return func(t *testing.T, c *cm.Conn, _ valkey.Message) { ok(t, c.Send(within(t), m.Append(nil))) }
	}
	imm := func(n uint32) func(*testing.T, *cm.Conn, valkey.Message) {
		return func(t *testing.T, c *cm.Conn, at valkey.Message) {
			_, err := c.Do(within(t), &verbs.SendWR{Op: verbs.OpWriteImm, Imm: n,
				Remote: verbs.Remote{Addr: at.Addr, Key: verbs.Key(at.Key)}})
			ok(t, err)
		}
	}
	for _, h := range []struct {
		name string
		do   func(t *testing.T, c *cm.Conn, at valkey.Message)
		want error
		says string
	}{
		{"empty", func(t *testing.T, c *cm.Conn, _ valkey.Message) { ok(t, c.Send(within(t), nil)) },
			valkey.ErrProtocol, "0 bytes"},
		{"short", func(t *testing.T, c *cm.Conn, _ valkey.Message) { ok(t, c.Send(within(t), make([]byte, 31))) },
			valkey.ErrProtocol, "31 bytes"},
		{"opcode", send(valkey.Message{Opcode: 4}), valkey.ErrProtocol, "opcode 4"},
		{"features", send(valkey.Message{Opcode: valkey.SetClientFeature, Features: 1}), valkey.ErrProtocol,
			"features 0x1"},
		{"no buffer", send(valkey.Message{Opcode: valkey.RegisterXferMemory, Addr: 1}), valkey.ErrProtocol, "0 bytes"},
		{"end of memory", send(valkey.Message{Opcode: valkey.RegisterXferMemory, Addr: math.MaxUint64, Length: 1}),
			valkey.ErrProtocol, "last address"},
		{"a byte too many", imm(valkey.DefaultRecvBuffer/2 + 1), valkey.ErrProtocol, "have room"},
		{"4 GB", imm(math.MaxUint32), valkey.ErrProtocol, "have room"},
		{"outside", func(t *testing.T, c *cm.Conn, at valkey.Message) {
			c.Do(within(t), &verbs.SendWR{Op: verbs.OpWrite, Inline: []byte("x"),
				Remote: verbs.Remote{Addr: at.Addr + valkey.DefaultRecvBuffer, Key: verbs.Key(at.Key)}})
		}, syscall.ECONNRESET, ""},
		{"too long", func(t *testing.T, c *cm.Conn, at valkey.Message) { c.Send(within(t), make([]byte, 33)) },
			syscall.ECONNRESET, ""},
		{"leaves", func(t *testing.T, c *cm.Conn, at valkey.Message) { c.Close() }, io.EOF, ""},
	} {
		t.Run(h.name, func(t *testing.T) {
			kinds(t, func(t *testing.T, kind string) {
				server, client := open(t, kind), open(t, kind)
				l, err := valkey.Listen(t.Context(), server, ":0")
				ok(t, err)
				defer l.Close()
				raw, err := cm.Dial(within(t), client, l.Addr().String())
				ok(t, err)
				defer raw.Close()
				c, err := l.AcceptConn()
				ok(t, err)
				defer c.Close()
				b, err := raw.Recv(within(t))
				ok(t, err)
				var at valkey.Message
				if !at.Decode(b.Bytes()) || at.Opcode != valkey.RegisterXferMemory ||
					at.Length != valkey.DefaultRecvBuffer/2 {
					t.Fatalf("it begins with %+v", at)
				}
				b.Release()
				h.do(t, raw, at)
				_, err = c.Read(make([]byte, 1))
				if !errors.Is(err, h.want) || !strings.Contains(err.Error(), h.says) {
					t.Errorf("%v, want %v that says %q", err, h.want, h.says)
				}
				checkPair(t, l, client)
			})
		})
	}
}

// checkPair checks that a listener still serves.
func checkPair(t *testing.T, l *valkey.Listener, client *verbs.Device) {
	done := make(chan net.Conn, 1)
	go func() {
		c, err := l.Accept()
		if err != nil {
			t.Error(err)
		}
		done <- c
	}()
	c, err := valkey.Dial(within(t), client, l.Addr().String())
	ok(t, err)
	defer c.Close()
	s := <-done
	defer s.Close()
	write(t, c, []byte("hello"))
	readAll(t, s, []byte("hello"))
}

// A server answers questions for features: it has none. It answers all that a patient client asks.
func TestFeatures(t *testing.T) {
	server, client := open(t, "shm"), open(t, "shm")
	l, err := valkey.Listen(t.Context(), server, ":0")
	ok(t, err)
	defer l.Close()
	raw, err := cm.Dial(within(t), client, l.Addr().String())
	ok(t, err)
	defer raw.Close()
	c, err := l.AcceptConn()
	ok(t, err)
	defer c.Close()
	go c.Read(make([]byte, 1))
	b, err := raw.Recv(within(t)) // the buffer
	ok(t, err)
	b.Release()
	for i := range 100 {
		ok(t, raw.Send(within(t), valkey.Message{Opcode: valkey.GetServerFeature, Select: uint16(i)}.Append(nil)))
		b, err := raw.Recv(within(t))
		ok(t, err)
		var m valkey.Message
		if !m.Decode(b.Bytes()) || m != (valkey.Message{Opcode: valkey.GetServerFeature, Select: uint16(i)}) {
			t.Fatalf("question %d: %+v", i, m)
		}
		b.Release()
	}
	ok(t, raw.Send(within(t), valkey.Message{Opcode: valkey.SetClientFeature}.Append(nil)))
}
