// SPDX-License-Identifier: Apache-2.0

package cm_test

import (
	"errors"
	"net/netip"
	"testing"
	"time"

	"github.com/ramjet-rdma/ramjet/cm"
	"github.com/ramjet-rdma/ramjet/internal/testkit/loopback"
	"github.com/ramjet-rdma/ramjet/roce"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// TestOneAddress dials a server in another process of the same address, and back; ports are
// the address's, not a process's.
func TestOneAddress(t *testing.T) {
	s := startServer(t)
	at := netip.MustParseAddrPort(s.at)
	for _, name := range []string{"first", "second"} { // a device that joins and leaves
		dev, err := roce.Open(at.Addr().String(), nil)
		ok(t, err)
		for range 10 {
			c, err := cm.Dial(within(t), dev, s.at)
			ok(t, err)
			ok(t, c.Send(within(t), []byte("hello")))
			ok(t, c.Close())
		}
		var rejected *cm.RejectError
		_, err = cm.Dial(within(t), dev, netip.AddrPortFrom(at.Addr(), 1).String())
		if !errors.As(err, &rejected) {
			t.Errorf("%s: dialing a port that nobody listens on: %v", name, err)
		}
		_, err = cm.Listen(t.Context(), dev, s.at)
		if !errors.Is(err, cm.ErrAddrInUse) {
			t.Errorf("%s: listening on a port of another process: %v", name, err)
		}
		l, err := cm.Listen(t.Context(), dev, ":0")
		ok(t, err)
		go func() {
			for {
				if _, err := l.Accept(t.Context()); err != nil {
					return
				}
			}
		}()
		outside := open(t)
		for _, to := range []string{s.at, l.Addr().String()} {
			c, err := cm.Dial(within(t), outside, to)
			ok(t, err)
			ok(t, c.Close())
		}
		ok(t, dev.Close())
	}
}

// TestLastWordsAtOneAddress closes the device that takes management datagrams for all devices of its address.
// The peers there hear of the end of their connections.
func TestLastWordsAtOneAddress(t *testing.T) {
	server, addr := loopback.Open(t, func(addr string) (*verbs.Device, error) { return roce.Open(addr, nil) })
	l := listen(t, server, cm.WithAckTimeout(21)) // the retries take 69 s
	var clients []*cm.Conn
	for range 4 {
		in := accept(t, l)
		dev, err := roce.Open(addr.String(), nil)
		ok(t, err)
		t.Cleanup(func() { dev.Close() })
		c, err := cm.Dial(within(t), dev, l.Addr().String())
		ok(t, err)
		ok(t, (<-in).err)
		clients = append(clients, c)
	}
	ok(t, server.Close())
	for _, c := range clients {
		select {
		case <-c.Done():
		case <-time.After(30 * time.Second):
			t.Error("it does not hear of the end")
		}
	}
}
