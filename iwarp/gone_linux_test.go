// SPDX-License-Identifier: Apache-2.0

package iwarp_test

import (
	"context"
	"errors"
	"io"
	"net"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ramjet-rdma/ramjet/cm"
	"github.com/ramjet-rdma/ramjet/internal/engine/rdmap"
	"github.com/ramjet-rdma/ramjet/internal/testkit/testrun"
	wire "github.com/ramjet-rdma/ramjet/wire/iwarp"
)

// vanish has a peer's socket drop all that arrives, acknowledgements included: for the other
// side its machine is gone, without a word.
func vanish(t *testing.T, c net.Conn) {
	t.Helper()
	raw, err := c.(*net.TCPConn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	drop := unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K}
	raw.Control(func(fd uintptr) {
		for left := 1; left > 0 && err == nil; { // data that it retransmits would be a sign of life
			left, err = unix.IoctlGetInt(int(fd), unix.SIOCOUTQ)
		}
		if err == nil {
			err = unix.SetsockoptSockFprog(int(fd), unix.SOL_SOCKET, unix.SO_ATTACH_FILTER,
				&unix.SockFprog{Len: 1, Filter: &drop})
		}
	})
	if errors.Is(err, unix.EPERM) {
		t.Skip("this system lets only root filter what a socket gets")
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestGone has peers vanish, with and without data in flight, and has a peer that reads nothing for
// longer than it takes to notice a vanished one.
func TestGone(t *testing.T) {
	testrun.SkipUnlessLong(t, "waits half a minute for what the kernel takes to find a peer gone")
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	dev := open(t, nil)
	l, err := cm.Listen(ctx, dev, ":0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	connect := func() (net.Conn, *cm.Conn) {
		raw := dialRaw(t, l.Addr().String())
		raw.SetDeadline(time.Now().Add(6 * time.Minute))
		asked := make(chan struct{})
		go func() {
			defer close(asked)
			ask(t, raw, rdmap.AppendRequest(nil, &rdmap.Proposal{CRC: true, IRD: 4, ORD: 4}, nil))
		}()
		c, err := l.Accept(ctx)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		<-asked
		ready := append((&wire.Header{Tagged: true, Last: true, DDP: wire.DDPVersion,
			RDMAP: wire.RDMAPVersion}).Append([]byte{0,
			wire.TaggedLen}), make([]byte, wire.PadLen(wire.TaggedLen)+wire.CRCLen)...)
		end := len(ready) - wire.CRCLen
		wire.PutCRC(ready[end:], wire.UpdateCRC(0, ready[:end]))
		if _, err := raw.Write(ready); err != nil {
			t.Fatal(err)
		}
		return raw, c
	}
	idle, idleConn := connect()
	busy, busyConn := connect()
	slow, slowConn := connect()

	const size = 16 << 20
	sent := make(chan error, 1)
	go func() { sent <- slowConn.Send(ctx, make([]byte, size)) }()

	vanish(t, idle)
	vanish(t, busy)
	if err := busyConn.Send(ctx, []byte("hello")); err != nil {
		t.Error(err)
	}
	for name, c := range map[string]*cm.Conn{"idle": idleConn, "busy": busyConn} {
		select {
		case <-c.Done():
		case <-ctx.Done():
			t.Fatalf("%s: the connection lasts although its peer is gone", name)
		}
	}
	if n, err := io.CopyN(io.Discard, slow, size); err != nil {
		t.Errorf("the connection of a slow peer ended after %d bytes: %v", n, err)
	}
	if err := <-sent; err != nil {
		t.Errorf("to a slow peer: %v", err)
	}
}
