// SPDX-License-Identifier: Apache-2.0

package smbdirect_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ramjet-rdma/ramjet/cm"
	"github.com/ramjet-rdma/ramjet/smbdirect"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// Messages of many lengths arrive whole and in order, in both directions at once, with credits and sizes of many kinds.
func TestMessages(t *testing.T) {
	small := smbdirect.Options{SendCredits: 8, RecvCredits: 8, MaxSendSize: 128, MaxReceiveSize: 128,
		MaxFragmentedSize: 128 << 10}
	kinds(t, func(t *testing.T, server, client *verbs.Device) {
		for _, o := range [][2]smbdirect.Options{{{}, {}}, {small, small}, {small, {}}, {{}, small},
			{{SendCredits: 100, RecvCredits: 9, MaxSendSize: 1364}, {MaxReceiveSize: 1364}}} {
			a, b := pair(t, server, client, o[0], o[1])
			lengths := []int{1, 7, 103, 104, 105, 208, 8168, 8169, 50000, 128 << 10}
			var all sync.WaitGroup
			for i, c := range [][2]*smbdirect.Conn{{a, b}, {b, a}} {
				all.Go(func() {
					for _, n := range lengths {
						if err := c[0].WriteMessage(within(t), message(byte(i), n)); err != nil {
							t.Error(err)
						}
					}
				})
				all.Go(func() {
					for _, n := range lengths {
						receives(t, c[1], message(byte(i), n))
					}
				})
			}
			all.Wait()
			ok(t, a.Close())
			ok(t, b.Close())
		}
	})
}

// A peer that does not read is waited for, and holds no more than it said it would.
func TestSlowReader(t *testing.T) {
	kinds(t, func(t *testing.T, server, client *verbs.Device) {
		o := smbdirect.Options{SendCredits: 8, RecvCredits: 8, MaxFragmentedSize: 128 << 10}
		a, b := pair(t, server, client, o, o)
		const messages, size = 100, 100 << 10
		sent := make(chan error, 1)
		go func() {
			for i := range messages {
				if err := b.WriteMessage(t.Context(), message(byte(i), size)); err != nil {
					sent <- err
					return
				}
			}
			sent <- nil
		}()
		for i := range messages {
			receives(t, a, message(byte(i), size))
			if n := smbdirect.Queued(a); n > 3*128<<10 {
				t.Errorf("%d bytes wait", n)
			}
		}
		ok(t, <-sent)
	})
}

// A context that ends before a message is in flight leaves the connection as it is.
func TestContexts(t *testing.T) {
	kinds(t, func(t *testing.T, server, client *verbs.Device) {
		a, b := pair(t, server, client, smbdirect.Options{}, smbdirect.Options{})
		over, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := a.ReadMessage(over); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		if err := b.WriteMessage(t.Context(), nil); err == nil {
			t.Error("0 bytes were sent")
		}
		if err := b.WriteMessage(t.Context(), make([]byte, b.MaxMessage()+1)); !errors.Is(err, smbdirect.ErrTooLong) {
			t.Error(err)
		}
		ok(t, b.WriteMessage(within(t), []byte("still")))
		receives(t, a, []byte("still"))
	})
}

// Data that was written before Close is read, and then comes io.EOF.
func TestClose(t *testing.T) {
	kinds(t, func(t *testing.T, server, client *verbs.Device) {
		a, b := pair(t, server, client, smbdirect.Options{}, smbdirect.Options{})
		for i := range 10 {
			ok(t, a.WriteMessage(within(t), message(byte(i), 30000)))
		}
		ok(t, a.Close())
		for i := range 10 {
			receives(t, b, message(byte(i), 30000))
		}
		if _, err := b.ReadMessage(within(t)); !errors.Is(err, io.EOF) {
			t.Errorf("after the end: %v", err)
		}
		if err := b.WriteMessage(within(t), []byte("x")); !errors.Is(err, io.EOF) {
			t.Errorf("a write after the end: %v", err)
		}
		if _, err := a.ReadMessage(within(t)); !errors.Is(err, net.ErrClosed) {
			t.Errorf("a read after Close: %v", err)
		}
		if err := a.Close(); !errors.Is(err, net.ErrClosed) {
			t.Errorf("a second Close: %v", err)
		}
	})
}

// Close ends calls that wait.
func TestCloseWhileWaiting(t *testing.T) {
	kinds(t, func(t *testing.T, server, client *verbs.Device) {
		a, _ := pair(t, server, client, smbdirect.Options{}, smbdirect.Options{})
		done := make(chan error, 1)
		go func() {
			_, err := a.ReadMessage(t.Context())
			done <- err
		}()
		ok(t, a.Close())
		if err := <-done; !errors.Is(err, net.ErrClosed) {
			t.Error(err)
		}
	})
}

// Idle connections ask each other for messages, and stay.
func TestKeepAlive(t *testing.T) {
	kinds(t, func(t *testing.T, server, client *verbs.Device) {
		o := smbdirect.Options{Idle: time.Millisecond, IdleResponse: patience, SendCredits: 8, RecvCredits: 8}
		a, b := pair(t, server, client, o, o)
		end := time.Now().Add(patience)
		for ; smbdirect.Received(a) < 50 || smbdirect.Received(b) < 50; time.Sleep(time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("%d and %d messages", smbdirect.Received(a), smbdirect.Received(b))
			}
		}
		ok(t, b.WriteMessage(within(t), []byte("still")))
		receives(t, a, []byte("still"))
	})
}

// A listener admits the peers that its options allow, up to their number.
func TestAdmission(t *testing.T) {
	kinds(t, func(t *testing.T, server, client *verbs.Device) {
		var refuse atomic.Bool
		l, err := smbdirect.Listen(t.Context(), server, ":0",
			smbdirect.ListenOptions{Options: patient(smbdirect.Options{}),
				MaxConns: 1, Allow: func(netip.AddrPort) bool { return !refuse.Load() }})
		ok(t, err)
		defer l.Close()
		dial := func() (*smbdirect.Conn, error) {
			return smbdirect.Dial(within(t), client, l.Addr().String(), patient(smbdirect.Options{}))
		}
		b, err := dial()
		ok(t, err)
		defer b.Close()
		a, err := l.Accept(within(t))
		ok(t, err)
		var rejected *cm.RejectError
		if _, err := dial(); !errors.As(err, &rejected) {
			t.Errorf("a second connection: %v", err)
		}
		ok(t, a.Close())
		refuse.Store(true)
		if _, err := dial(); !errors.As(err, &rejected) {
			t.Errorf("a peer that may not connect: %v", err)
		}
	})
}

// Options out of range are refused, and say so.
func TestOptions(t *testing.T) {
	kinds(t, func(t *testing.T, server, client *verbs.Device) {
		for _, o := range []smbdirect.Options{{SendCredits: 1}, {RecvCredits: 1 << 20}, {MaxSendSize: 100},
			{MaxFragmentedSize: 1 << 30}, {MaxReadWriteSize: -1}, {Idle: -1}} {
			if _, err := smbdirect.Dial(t.Context(), client, "127.0.0.1", o); err == nil {
				t.Errorf("%+v is taken", o)
			}
			if _, err := smbdirect.Listen(t.Context(), server, ":0", smbdirect.ListenOptions{Options: o}); err == nil {
				t.Errorf("%+v is taken", o)
			}
		}
	})
}
