// SPDX-License-Identifier: Apache-2.0

package rnet

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ramjet-rdma/ramjet/cm"
	"github.com/ramjet-rdma/ramjet/internal/testkit/loopback"
	"github.com/ramjet-rdma/ramjet/wire/ib"
)

// silent returns an address that takes datagrams and answers none. The host reports an address that nobody has, and
// whoever dials it is soon refused.
func silent(t *testing.T) string {
	t.Helper()
	for {
		at := netip.AddrPortFrom(loopback.Next(), ib.UDPPort)
		c, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(at))
		if errors.Is(err, syscall.EADDRINUSE) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		return net.JoinHostPort(at.Addr().String(), "1")
	}
}

func TestTimeouts(t *testing.T) {
	for err, want := range map[error]bool{
		os.ErrDeadlineExceeded: true, context.DeadlineExceeded: true, cm.ErrTimeout: true, syscall.ETIMEDOUT: true,
		fmt.Errorf("%w: the peer", syscall.ETIMEDOUT): true, io.EOF: false, syscall.ECONNREFUSED: false,
		net.ErrClosed: false,
	} {
		var e net.Error = &net.OpError{Op: "read", Err: netError(err)}
		if e.Timeout() != want || !errors.Is(e, err) {
			t.Errorf("%v: Timeout is %v", err, e.Timeout())
		}
	}
	dev, _ := open(t)
	d := Dialer{Device: dev, Timeout: time.Millisecond}
	_, err := d.Dial("rdma", silent(t))
	if e, ok := err.(net.Error); !ok || !e.Timeout() {
		t.Errorf("dialing an address where nobody answers: %v", err)
	}
}

// The error of a call that ends with its context names the peer.
func TestDialContextEnds(t *testing.T) {
	dev, _ := open(t)
	at := silent(t)
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	late, cancel := context.WithDeadline(t.Context(), time.Now().Add(-time.Second))
	defer cancel()
	for _, ctx := range []context.Context{canceled, late} {
		_, err := Dial(ctx, dev, at)
		var e net.Error
		if !errors.Is(err, ctx.Err()) || !errors.As(err, &e) || e.Timeout() != (ctx == late) ||
			!strings.Contains(err.Error(), at) {
			t.Errorf("%v: %v", ctx.Err(), err)
		}
	}
}

// The write deadline also holds for datagrams over UDP, and Close does not wait for it.
func TestPacketWriteDeadline(t *testing.T) {
	dev, _ := open(t)
	p, err := ListenPacket(t.Context(), dev, ":0")
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	to := p.LocalAddr()
	p.SetWriteDeadline(time.Now().Add(-time.Second))
	if _, err := p.WriteTo([]byte("late"), to); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("after the deadline: %v", err)
	}
	p.SetWriteDeadline(time.Now().Add(time.Minute))
	if _, err := p.WriteTo([]byte("in time"), to); err != nil {
		t.Error(err)
	}
	buf := make([]byte, 100)
	p.SetReadDeadline(time.Now().Add(time.Minute))
	if n, _, err := p.ReadFrom(buf); err != nil || string(buf[:n]) != "in time" {
		t.Errorf("%q, %v", buf[:n], err)
	}
}
