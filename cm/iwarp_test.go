// SPDX-License-Identifier: Apache-2.0

package cm_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"runtime"
	"testing"
	"time"

	"github.com/ramjet-rdma/ramjet/cm"
	"github.com/ramjet-rdma/ramjet/internal/app/localca"
	"github.com/ramjet-rdma/ramjet/internal/testkit/loopback"
	"github.com/ramjet-rdma/ramjet/iwarp"
	"github.com/ramjet-rdma/ramjet/shm"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// openIWARP opens an iWARP device of an address of its own.
func openIWARP(t *testing.T) *verbs.Device {
	t.Helper()
	dev, _ := loopback.Open(t, func(addr string) (*verbs.Device, error) { return iwarp.Open(addr, nil) })
	return dev
}

func bounded(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// TestIWARP connects over iWARP, talks both ways, and ends the connection.
func TestIWARP(t *testing.T) { overIWARP(t, openIWARP) }

// TestTLS is TestIWARP inside TLS, TestSCTP over SCTP.
func TestTLS(t *testing.T) {
	ca, err := localca.New()
	if err != nil {
		t.Fatal(err)
	}
	overIWARP(t, func(t *testing.T) *verbs.Device {
		dev, _ := loopback.Open(t, func(addr string) (*verbs.Device, error) {
			c, err := ca.Config(netip.MustParseAddr(addr))
			if err != nil {
				t.Fatal(err)
			}
			return iwarp.Open(addr, &iwarp.Options{TLS: c})
		})
		return dev
	})
}

func TestSCTP(t *testing.T) {
	t.Parallel()
	overIWARP(t, func(t *testing.T) *verbs.Device {
		dev, _ := loopback.Open(t, func(addr string) (*verbs.Device,
			error) {
			return iwarp.Open(addr, &iwarp.Options{SCTP: true})
		})
		return dev
	})
}

// TestSharedMemory is TestIWARP over shared memory, whose connections have the same set-up.
func TestSharedMemory(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("shared memory needs Linux")
	}
	t.Parallel()
	overIWARP(t, openMemory)
	t.Run("Refused", func(t *testing.T) { refusedOver(t, openMemory) })
	t.Run("PeerGone", func(t *testing.T) { peerGoneOver(t, openMemory) })
}

// openMemory opens a device of shared memory, of an address of its own.
func openMemory(t *testing.T) *verbs.Device {
	t.Helper()
	dev, _ := loopback.Open(t, func(addr string) (*verbs.Device, error) { return shm.Open(addr, nil) })
	return dev
}

func overIWARP(t *testing.T, open func(*testing.T) *verbs.Device) {
	ctx := bounded(t)
	a, b := open(t), open(t)
	l, err := cm.Listen(ctx, b, ":0", cm.WithPrivateData([]byte("welcome")))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	accepted := make(chan *cm.Conn, 1)
	go func() {
		c, err := l.Accept(ctx)
		if err != nil {
			t.Error(err)
		}
		accepted <- c
	}()
	x, err := cm.Dial(ctx, a, l.Addr().String(), cm.WithPrivateData([]byte("hello")))
	if err != nil {
		t.Fatal(err)
	}
	y := <-accepted
	if y == nil {
		t.FailNow()
	}
	if got := string(x.Param().PrivateData); got != "welcome" {
		t.Errorf("private data %q", got)
	}
	if got := string(y.Param().PrivateData); got != "hello" {
		t.Errorf("private data %q", got)
	}
	if x.PeerAddr() != l.Addr() || y.PeerAddr() != x.LocalAddr() {
		t.Errorf("addresses %v %v %v %v", x.LocalAddr(), x.PeerAddr(), y.LocalAddr(), y.PeerAddr())
	}
	for i := range 100 {
		from, to := x, y
		if i%2 == 1 {
			from, to = y, x
		}
		msg := bytes.Repeat([]byte{byte(i)}, 1+i*37)
		if err := from.Send(ctx, msg); err != nil {
			t.Fatal(err)
		}
		m, err := to.Recv(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(m.Bytes(), msg) {
			t.Fatalf("message %d is not what was sent", i)
		}
		m.Release()
	}
	if err := x.Close(); err != nil {
		t.Error(err)
	}
	select {
	case <-y.Done():
	case <-ctx.Done():
		t.Error("the peer does not hear of the end")
	}
	y.Close()
}

// TestIWARPRefused connects to a port without a listener, and to a listener that rejects.
func TestIWARPRefused(t *testing.T) { refusedOver(t, openIWARP) }

func refusedOver(t *testing.T, open func(*testing.T) *verbs.Device) {
	ctx := bounded(t)
	a, b := open(t), open(t)
	gids, err := b.GIDs(1)
	if err != nil {
		t.Fatal(err)
	}
	var rej *cm.RejectError
	if _, err := cm.Dial(ctx, a, fmt.Sprintf("%v:7", gids[0].GID.Addr())); !errors.As(err, &rej) ||
		rej.Reason != cm.ReasonInvalidService {
		t.Errorf("dialing where nobody listens: %v", err)
	}
	l, err := cm.Listen(ctx, b, ":0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if _, err := cm.Listen(ctx, b, l.Addr().String()); !errors.Is(err, cm.ErrAddrInUse) {
		t.Errorf("listening twice: %v", err)
	}
	go func() {
		r, err := l.Next(ctx)
		if err != nil {
			t.Error(err)
			return
		}
		r.Reject([]byte("not today"))
	}()
	if _, err := cm.Dial(ctx, a, l.Addr().String()); !errors.As(err, &rej) || string(rej.PrivateData) != "not today" {
		t.Errorf("dialing somebody who does not want: %v", err)
	}
	if _, err := cm.NewID(cm.NewEventChannel(), a, cm.UDP); err != nil {
		t.Fatal(err)
	}
}

// TestIWARPPortTaken binds to any port while the first one is in use by another socket of the
// system: it gets another.
func TestIWARPPortTaken(t *testing.T) {
	ctx := bounded(t)
	take := func(dev *verbs.Device) (stop func()) {
		gids, err := dev.GIDs(1)
		if err != nil {
			t.Fatal(err)
		}
		taken, err := net.ListenTCP("tcp", net.TCPAddrFromAddrPort(netip.AddrPortFrom(gids[0].GID.Addr(), 0)))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { taken.Close() })
		port := taken.Addr().(*net.TCPAddr).Port
		if port < 32768 || port > 60900 {
			t.Skipf("this system's ports are others than Linux's: %d", port)
		}
		return cm.PortsFrom(uint16(port))
	}
	a, b := openIWARP(t), openIWARP(t)
	stop := take(b)
	l, err := cm.Listen(ctx, b, ":0")
	stop()
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go l.Accept(ctx)
	stop = take(a)
	defer stop()
	c, err := cm.Dial(ctx, a, l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	c.Close()
}

// TestIWARPPeerGone has a peer's device close under a connection.
func TestIWARPPeerGone(t *testing.T) { peerGoneOver(t, openIWARP) }

func peerGoneOver(t *testing.T, open func(*testing.T) *verbs.Device) {
	ctx := bounded(t)
	a, b := open(t), open(t)
	l, err := cm.Listen(ctx, b, ":0")
	if err != nil {
		t.Fatal(err)
	}
	go l.Accept(ctx)
	x, err := cm.Dial(ctx, a, l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	b.Close()
	select {
	case <-x.Done():
	case <-ctx.Done():
		t.Error("nobody tells of the end")
	}
	x.Close()
}
