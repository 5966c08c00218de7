// SPDX-License-Identifier: Apache-2.0

package smbdirect_test

import (
	"encoding/binary"
	"errors"
	"math"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/ramjet-rdma/ramjet/cm"
	"github.com/ramjet-rdma/ramjet/smbdirect"
	"github.com/ramjet-rdma/ramjet/smbdirect/wire"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// raw connects without negotiating.
func raw(t testing.TB, l *smbdirect.Listener, client *verbs.Device) *cm.Conn {
	t.Helper()
	c, err := cm.Dial(within(t), client, l.Addr().String(), cm.WithDepth(64, 300))
	ok(t, err)
	t.Cleanup(func() { c.Close() })
	return c
}

func send(t testing.TB, c *cm.Conn, b []byte) {
	t.Helper()
	ok(t, c.Send(within(t), b))
}

// receive returns the next message.
func receive(t testing.TB, c *cm.Conn) []byte {
	t.Helper()
	b, err := c.Recv(within(t))
	ok(t, err)
	defer b.Release()
	return append([]byte(nil), b.Bytes()...)
}

// good is a request that nothing is wrong with.
var good = wire.Request{MinVersion: wire.Version1, MaxVersion: wire.Version1, CreditsRequested: 10,
	PreferredSendSize: 1364, MaxReceiveSize: 1364, MaxFragmentedSize: 1 << 20}

// checkServes checks that a listener still serves.
func checkServes(t *testing.T, l *smbdirect.Listener, client *verbs.Device) {
	t.Helper()
	b, err := smbdirect.Dial(within(t), client, l.Addr().String(), patient(smbdirect.Options{}))
	ok(t, err)
	defer b.Close()
	a, err := l.Accept(within(t))
	ok(t, err)
	defer a.Close()
	ok(t, b.WriteMessage(within(t), []byte("hello")))
	receives(t, a, []byte("hello"))
}

// gone waits until a peer has ended a connection.
func gone(t *testing.T, c *cm.Conn) {
	t.Helper()
	select {
	case <-c.Done():
	case <-within(t).Done():
		t.Fatal("the connection stays")
	}
}

// Requests that cannot be answered end the connection, and nobody else's.
func TestHostileRequests(t *testing.T) {
	with := func(change func(*wire.Request)) []byte {
		r := good
		change(&r)
		return r.Append(nil)
	}
	for name, b := range map[string][]byte{
		"empty": {}, "short": good.Append(nil)[:wire.RequestSize-1],
		"data transfer":         (&wire.Transfer{CreditsRequested: 1}).AppendHeader(nil, 0),
		"credits":               with(func(r *wire.Request) { r.CreditsRequested = 0 }),
		"receive size":          with(func(r *wire.Request) { r.MaxReceiveSize = wire.MinReceiveSize - 1 }),
		"fragmented size":       with(func(r *wire.Request) { r.MaxFragmentedSize = wire.MinFragmentedSize - 1 }),
		"longer than a receive": make([]byte, smbdirect.DefaultMessageSize+1),
	} {
		t.Run(name, func(t *testing.T) {
			kinds(t, func(t *testing.T, server, client *verbs.Device) {
				l := listen(t, server, smbdirect.Options{})
				c := raw(t, l, client)
				c.Send(within(t), b) // fails if it is too long
				gone(t, c)
				checkServes(t, l, client)
			})
		})
	}
}

// A peer of other versions hears which there are.
func TestVersions(t *testing.T) {
	kinds(t, func(t *testing.T, server, client *verbs.Device) {
		l := listen(t, server, smbdirect.Options{})
		for _, v := range [][2]uint16{{0x0101, 0x0200}, {0, 0xff}, {0x0200, 0x0100}} {
			c := raw(t, l, client)
			r := good
			r.MinVersion, r.MaxVersion = v[0], v[1]
			send(t, c, r.Append(nil))
			var got wire.Response
			if b := receive(t, c); !got.Decode(b) ||
				got != (wire.Response{MinVersion: wire.Version1, MaxVersion: wire.Version1,
					Status: wire.StatusNotSupported}) {
				t.Errorf("versions %#x: %+v", v, got)
			}
			gone(t, c)
		}
		c := raw(t, l, client)
		r := good
		r.MinVersion, r.MaxVersion = 0, math.MaxUint16
		send(t, c, r.Append(nil))
		var got wire.Response
		if b := receive(t, c); !got.Decode(b) || got.Status != wire.StatusSuccess ||
			got.NegotiatedVersion != wire.Version1 ||
			got.CreditsGranted != 10 || got.PreferredSendSize != 1364 || got.MaxReceiveSize != 1364 {
			t.Errorf("%+v", got)
		}
		a, err := l.Accept(within(t))
		ok(t, err)
		ok(t, a.Close())
	})
}

// Responses that do not suit end the connection, with an error that says why.
func TestHostileResponses(t *testing.T) {
	fine := wire.Response{MinVersion: wire.Version1, MaxVersion: wire.Version1, NegotiatedVersion: wire.Version1,
		CreditsRequested: 10, CreditsGranted: 10, MaxReadWriteSize: 1 << 20, PreferredSendSize: 1364,
		MaxReceiveSize: 1364, MaxFragmentedSize: 1 << 20}
	with := func(change func(*wire.Response)) []byte {
		r := fine
		change(&r)
		return r.Append(nil)
	}
	for _, h := range []struct {
		name string
		b    []byte
		want error
		says string
	}{
		{"empty", nil, smbdirect.ErrProtocol, "0 bytes"},
		{"short", fine.Append(nil)[:31], smbdirect.ErrProtocol, "31 bytes"},
		{"not supported", with(func(r *wire.Response) { r.Status = wire.StatusNotSupported }), smbdirect.ErrVersion,
			"0x100"},
		{"status", with(func(r *wire.Response) { r.Status = 0xc0000001 }), smbdirect.ErrProtocol, "0xc0000001"},
		{"version", with(func(r *wire.Response) { r.NegotiatedVersion = 0x200 }), smbdirect.ErrProtocol, "0x200"},
		{"no credits", with(func(r *wire.Response) { r.CreditsGranted = 0 }), smbdirect.ErrProtocol, "grants 0"},
		{"requests no credits", with(func(r *wire.Response) { r.CreditsRequested = 0 }), smbdirect.ErrProtocol,
			"requests 0"},
		{"send size", with(func(r *wire.Response) { r.PreferredSendSize = math.MaxUint32 }), smbdirect.ErrProtocol,
			"4294967295"},
		{"receive size", with(func(r *wire.Response) { r.MaxReceiveSize = 127 }), smbdirect.ErrProtocol,
			"MaxReceiveSize 127"},
		{"fragmented size", with(func(r *wire.Response) { r.MaxFragmentedSize = 1 }), smbdirect.ErrProtocol,
			"MaxFragmentedSize 1"},
	} {
		t.Run(h.name, func(t *testing.T) {
			kinds(t, func(t *testing.T, server, client *verbs.Device) {
				l, err := cm.Listen(t.Context(), server, ":0")
				ok(t, err)
				defer l.Close()
				var peer sync.WaitGroup
				defer peer.Wait()
				peer.Go(func() {
					c, err := l.Accept(t.Context())
					if err != nil {
						t.Error(err)
						return
					}
					defer c.Close()
					if b, err := c.Recv(t.Context()); err == nil {
						b.Release()
						c.Send(t.Context(), h.b)
						<-c.Done()
					}
				})
				_, err = smbdirect.Dial(within(t), client, l.Addr().String(), patient(smbdirect.Options{}))
				if !errors.Is(err, h.want) || !strings.Contains(err.Error(), h.says) {
					t.Errorf("%v, want %v that says %q", err, h.want, h.says)
				}
			})
		})
	}
}

// A silent peer is not waited for.
func TestSilentPeers(t *testing.T) {
	kinds(t, func(t *testing.T, server, client *verbs.Device) {
		l, err := smbdirect.Listen(t.Context(), server, ":0", smbdirect.ListenOptions{
			Options: smbdirect.Options{Negotiate: time.Millisecond}})
		ok(t, err)
		defer l.Close()
		gone(t, raw(t, l, client))

		l = listen(t, server, smbdirect.Options{Idle: time.Millisecond, IdleResponse: time.Millisecond})
		c := raw(t, l, client)
		send(t, c, good.Append(nil))
		a, err := l.Accept(within(t))
		ok(t, err)
		defer a.Close()
		if _, err := a.ReadMessage(within(t)); !errors.Is(err, syscall.ETIMEDOUT) {
			t.Error(err)
		}
		gone(t, c)
	})
}

// A peer that breaks the protocol breaks its own connection, with an error that says how, and nobody else's.
func TestHostileTransfers(t *testing.T) {
	transfer := func(tr wire.Transfer, data int) []byte {
		return append(tr.AppendHeader(nil, data), make([]byte, data)...)
	}
	one := wire.Transfer{CreditsRequested: 10}
	at := func(off int, v uint32) []byte {
		b := transfer(one, 8)
		binary.LittleEndian.PutUint32(b[off:], v)
		return b
	}
	const fragmented = smbdirect.DefaultMaxFragmentedSize
	for _, h := range []struct {
		name     string
		messages [][]byte
		says     string
	}{
		{"empty", [][]byte{{}}, "0 bytes"},
		{"a byte", [][]byte{{0}}, "1 bytes"},
		{"short", [][]byte{make([]byte, 19)}, "19 bytes"},
		{"credits", [][]byte{transfer(wire.Transfer{}, 0)}, "requests 0 credits"},
		{"unaligned", [][]byte{at(12, 25)}, "multiple of 8"},
		{"offset", [][]byte{at(12, 32)}, "beyond the 32 bytes"},
		{"huge offset", [][]byte{at(12, math.MaxUint32-7)}, "beyond the 32 bytes"},
		{"in the header", [][]byte{at(12, 16)}, "within the header"},
		{"length", [][]byte{at(16, 9)}, "beyond the 32 bytes"},
		{"huge length", [][]byte{at(16, math.MaxUint32)}, "beyond the 32 bytes"},
		{"no data", [][]byte{transfer(wire.Transfer{CreditsRequested: 1, RemainingDataLength: 1}, 0)}, "without data"},
		{"too long", [][]byte{transfer(wire.Transfer{CreditsRequested: 1, RemainingDataLength: fragmented}, 1)},
			"1114113 bytes"},
		{"4 GB", [][]byte{transfer(wire.Transfer{CreditsRequested: 1, RemainingDataLength: math.MaxUint32}, 8)},
			"4294967303 bytes"},
		{"more", [][]byte{transfer(wire.Transfer{CreditsRequested: 9, RemainingDataLength: 8}, 8),
			transfer(wire.Transfer{CreditsRequested: 9, RemainingDataLength: 1}, 8)}, "8 are missing"},
		{"less", [][]byte{transfer(wire.Transfer{CreditsRequested: 9, RemainingDataLength: 8}, 8),
			transfer(wire.Transfer{CreditsRequested: 9}, 7)}, "8 are missing"},
		{"grants too much", [][]byte{transfer(wire.Transfer{CreditsRequested: 9, CreditsGranted: 0xffff}, 0),
			transfer(wire.Transfer{CreditsRequested: 9, CreditsGranted: 0xffff}, 0)}, "credits"},
		{"negotiates again", [][]byte{good.Append(nil)}, "multiple of 8"},
	} {
		t.Run(h.name, func(t *testing.T) {
			kinds(t, func(t *testing.T, server, client *verbs.Device) {
				l := listen(t, server, smbdirect.Options{})
				c := raw(t, l, client)
				send(t, c, good.Append(nil))
				a, err := l.Accept(within(t))
				ok(t, err)
				defer a.Close()
				for _, b := range h.messages {
					send(t, c, b)
				}
				_, err = a.ReadMessage(within(t))
				if !errors.Is(err, smbdirect.ErrProtocol) || !strings.Contains(err.Error(), h.says) {
					t.Errorf("%v, want one that says %q", err, h.says)
				}
				gone(t, c)
				checkServes(t, l, client)
			})
		})
	}
}

// A peer that sends more than it has credits for is refused.
func TestCreditsExceeded(t *testing.T) {
	kinds(t, func(t *testing.T, server, client *verbs.Device) {
		l := listen(t, server, smbdirect.Options{})
		c := raw(t, l, client)
		send(t, c, good.Append(nil))
		a, err := l.Accept(within(t))
		ok(t, err)
		defer a.Close()
		tr := wire.Transfer{CreditsRequested: 10}
		for range good.CreditsRequested + 1 { // the server has no credit to grant more with
			send(t, c, append(tr.AppendHeader(nil, 1300), make([]byte, 1300)...))
		}
		for range good.CreditsRequested {
			receives(t, a, make([]byte, 1300))
		}
		if _, err := a.ReadMessage(within(t)); !errors.Is(err, smbdirect.ErrProtocol) ||
			!strings.Contains(err.Error(), "without a credit") {
			t.Error(err)
		}
		gone(t, c)
		checkServes(t, l, client)
	})
}
