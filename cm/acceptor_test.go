// SPDX-License-Identifier: Apache-2.0

package cm_test

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ramjet-rdma/ramjet/cm"
	"github.com/ramjet-rdma/ramjet/internal/testkit/loopback"
	"github.com/ramjet-rdma/ramjet/roce"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// session is a connection of a protocol above cm.
type session struct {
	*cm.Conn
	closed func()
}

func (s session) Close() error {
	err := s.Conn.Close()
	s.closed()
	return err
}

// setUp is the Setup of an acceptor of sessions.
func setUp(ctx context.Context, r *cm.Request, closed func()) (session, error) {
	c, err := r.Accept(ctx)
	return session{c, closed}, err
}

// sessions returns an acceptor at a device.
func sessions(t *testing.T, dev *verbs.Device, conf cm.AcceptorConfig[session]) *cm.Acceptor[session] {
	if conf.Setup == nil {
		conf.Setup = setUp
	}
	a := cm.NewAcceptor(listen(t, dev), conf)
	t.Cleanup(func() { a.Close() })
	return a
}

// TestAcceptorLimit holds that connections beyond MaxConns are rejected, and that one that is closed, or was not
// established, leaves its place to another.
func TestAcceptorLimit(t *testing.T) {
	t.Parallel()
	var failing atomic.Bool
	here, there := open(t), open(t)
	a := sessions(t, there, cm.AcceptorConfig[session]{MaxConns: 1,
		Setup: func(ctx context.Context, r *cm.Request, closed func()) (session, error) {
			if failing.Load() {
				return session{}, errors.Join(errors.New("no"), r.Reject(nil))
			}
			return setUp(ctx, r, closed)
		}})
	dial := func() (*cm.Conn, error) { return cm.Dial(within(t), here, a.Addr().String()) }
	var reject *cm.RejectError
	failing.Store(true)
	for range 3 {
		if _, err := dial(); !errors.As(err, &reject) {
			t.Fatalf("a connection whose Setup fails: %v", err)
		}
	}
	failing.Store(false)
	for range 3 {
		var c *cm.Conn
		eventually(t, func() bool { // the place of the connection before may not be free yet
			var err error
			c, err = dial()
			return err == nil
		}, "a place is free")
		s, err := a.Accept(within(t))
		ok(t, err)
		if _, err := dial(); !errors.As(err, &reject) {
			t.Errorf("a second connection: %v", err)
		}
		ok(t, s.Close())
		c.Close()
	}
}

// TestAcceptorAllow holds that peers who are not allowed are rejected.
func TestAcceptorAllow(t *testing.T) {
	t.Parallel()
	stranger, there := open(t), open(t)
	friend, known := loopback.Open(t, func(addr string) (*verbs.Device, error) { return roce.Open(addr, nil) })
	a := sessions(t, there,
		cm.AcceptorConfig[session]{Allow: func(peer netip.AddrPort) bool { return peer.Addr() == known }})
	var reject *cm.RejectError
	if _, err := cm.Dial(within(t), stranger, a.Addr().String()); !errors.As(err, &reject) {
		t.Errorf("a stranger connects: %v", err)
	}
	c, err := cm.Dial(within(t), friend, a.Addr().String())
	ok(t, err)
	defer c.Close()
	s, err := a.Accept(within(t))
	ok(t, err)
	if s.PeerAddr().Addr() != known {
		t.Errorf("accepted %v", s.PeerAddr())
	}
	s.Close()
}

// TestAcceptorEnds holds that Accept ends with its context, at a deadline that is set while it waits, with Close, and
// with the device.
func TestAcceptorEnds(t *testing.T) {
	t.Parallel()
	dev := open(t)
	a := sessions(t, dev, cm.AcceptorConfig[session]{})
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := a.Accept(ended)
	fails(t, err, context.Canceled)
	for _, e := range []struct {
		end  func()
		want error
	}{
		{func() { a.SetDeadline(time.Now()) }, os.ErrDeadlineExceeded},
		{func() { a.Close() }, net.ErrClosed},
	} {
		got := make(chan error, 1)
		a.SetDeadline(time.Time{})
		go func() {
			_, err := a.Accept(within(t))
			got <- err
		}()
		e.end()
		fails(t, <-got, e.want)
	}
	a.SetDeadline(time.Now())
	_, err = a.Accept(t.Context())
	fails(t, err, net.ErrClosed)
	fails(t, a.Close(), net.ErrClosed)

	a = sessions(t, dev, cm.AcceptorConfig[session]{})
	dev.Close()
	_, err = a.Accept(within(t))
	fails(t, err, verbs.ErrClosed)
}
