// SPDX-License-Identifier: Apache-2.0

package rnet

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/ramjet-rdma/ramjet/cm"
	"github.com/ramjet-rdma/ramjet/internal/engine/rsocket"
	"github.com/ramjet-rdma/ramjet/verbs"
)

func listen(t testing.TB) (*Listener, *verbs.Device) {
	dev, _ := open(t)
	l, err := Listen(t.Context(), dev, ":0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l, dev
}

func dial(t testing.TB, dev *verbs.Device, l *Listener) *Conn {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	c, err := Dial(ctx, dev, l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func TestNetTestDialed(t *testing.T) {
	t.Parallel()
	l, _ := listen(t)
	dev, _ := open(t)
	testConn(t, func() (net.Conn, net.Conn, func(), error) {
		a := dial(t, dev, l)
		b, err := l.Accept()
		return a, b, func() { a.Close(); b.Close() }, err
	})
}

func TestAddresses(t *testing.T) {
	l, _ := listen(t)
	dev, addr := open(t)
	a := dial(t, dev, l)
	b, err := l.AcceptConn()
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	if a.RemoteAddr().String() != l.Addr().String() || b.LocalAddr().String() != l.Addr().String() ||
		a.LocalAddr().String() != b.RemoteAddr().String() || a.LocalAddr().(*net.TCPAddr).AddrPort().Addr() != addr {
		t.Errorf("dialed from %v to %v, accepted from %v at %v, listener %v", a.LocalAddr(), a.RemoteAddr(),
			b.RemoteAddr(), b.LocalAddr(), l.Addr())
	}
}

// Connections stand before they are accepted, and many can be made at once.
func TestManyConnections(t *testing.T) {
	l, _ := listen(t)
	dev, _ := open(t)
	const n = 30
	go func() {
		for range n {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				io.Copy(c, c)
			}()
		}
	}()
	var all sync.WaitGroup
	for i := range n {
		c := dial(t, dev, l)
		all.Go(func() {
			deadline(t, c)
			want := []byte{byte(i), 1, 2, 3}
			c.Write(want)
			c.CloseWrite()
			if got, err := io.ReadAll(c); err != nil || string(got) != string(want) {
				t.Errorf("%v: %v, %v", c.LocalAddr(), got, err)
			}
		})
	}
	all.Wait()
}

func TestRefused(t *testing.T) {
	l, _ := listen(t)
	dev, _ := open(t)
	l.Close()
	if _, err := l.Accept(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("Accept: %v", err)
	}
	var reject *cm.RejectError
	if c, err := Dial(t.Context(), dev, l.Addr().String()); !errors.As(err, &reject) || c != nil {
		t.Errorf("Dial: %v", err)
	}
	if c, err := (&Dialer{Device: dev}).Dial("udp", l.Addr().String()); err == nil || c != nil {
		t.Error("a datagram network is dialed")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if c, err := (&Dialer{Device: dev}).DialContext(ctx, "tcp", l.Addr().String()); !errors.Is(err, context.Canceled) ||
		c != nil {
		t.Errorf("cancelled: %v", err)
	}
}

func TestAcceptDeadline(t *testing.T) {
	l, _ := listen(t)
	done := make(chan error)
	go func() {
		_, err := l.Accept()
		done <- err
	}()
	l.SetDeadline(time.Now())
	if err := <-done; !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Error(err)
	}
	l.SetDeadline(time.Now().Add(-time.Second))
	l.Close()
	if _, err := l.Accept(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("after Close and the deadline: %v", err)
	}
}

// A connection that ends without rsocket's disconnect, as when the peer's process is killed
// and its kernel ends it, is a reset to callers that wait.
func TestReset(t *testing.T) {
	l, _ := listen(t)
	dev, _ := open(t)
	a := dial(t, dev, l)
	b, err := l.AcceptConn()
	if err != nil {
		t.Fatal(err)
	}
	deadline(t, a)
	read := make(chan error)
	go func() {
		_, err := a.Read(make([]byte, 1))
		read <- err
	}()
	b.link.Close()
	if err := <-read; !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("Read: %v", err)
	}
	if _, err := a.Write([]byte("x")); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("Write: %v", err)
	}
	if err := a.Close(); err != nil {
		t.Errorf("Close: %v", err)
	}
	b.ep.close()
}

// A peer that is no rsocket is turned down, at either side.
func TestNoRsocket(t *testing.T) {
	l, _ := listen(t)
	dev, _ := open(t)
	var reject *cm.RejectError
	if _, err := cm.Dial(t.Context(), dev, l.Addr().String(), cm.WithPrivateData([]byte("hello"))); !errors.As(err,
		&reject) {
		t.Errorf("Dial without rsocket's data: %v", err)
	}
	other, err := cm.Listen(t.Context(), dev, ":0")
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	go func() {
		c, err := other.Accept(t.Context())
		if err == nil {
			<-c.Done()
			c.Close()
		}
	}()
	client, _ := open(t)
	if _, err := Dial(t.Context(), client, other.Addr().String()); !errors.Is(err, rsocket.ErrProtocol) {
		t.Errorf("Dial of no rsocket: %v", err)
	}
}
