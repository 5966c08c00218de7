// SPDX-License-Identifier: Apache-2.0

package cm_test

import (
	"context"
	"errors"
	"io"
	"net"
	"testing"

	"github.com/ramjet-rdma/ramjet/cm"
	"github.com/ramjet-rdma/ramjet/verbs"
	wire "github.com/ramjet-rdma/ramjet/wire/iwarp"
)

// listenAsked returns a listener, and the connection of a peer that has sent it an MPA request
// and does not speak iWARP otherwise. The request waits to be accepted, before that of any later peer.
func listenAsked(t *testing.T, ctx context.Context, frame []byte) (*cm.Listener, *net.TCPConn) {
	t.Helper()
	l, err := cm.Listen(ctx, openIWARP(t), ":0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	end, _ := ctx.Deadline()
	conn.SetDeadline(end)
	if _, err := conn.Write(frame); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() bool { return l.QueuedEvents() == 1 }, "the request arrives")
	return l, conn.(*net.TCPConn)
}

// enhanced is a request of revision 2 with the parameters of e.
func enhanced(e wire.Enhanced) []byte {
	f := wire.Frame{Kind: wire.Request, Revision: 2, Flags: wire.FlagEnhanced, PrivateLen: wire.EnhancedLen}
	return e.Append(f.Append(nil))
}

// acceptsFrom accepts until the connection of a dialer comes: earlier requests do not make Accept fail.
func acceptsFrom(t *testing.T, ctx context.Context, l *cm.Listener, dev *verbs.Device) {
	t.Helper()
	dialed := make(chan *cm.Conn, 1)
	go func() {
		defer close(dialed)
		c, err := cm.Dial(ctx, dev, l.Addr().String())
		if err != nil {
			t.Error(err)
			return
		}
		dialed <- c
	}()
	from, err := dev.GIDs(1)
	if err != nil {
		t.Fatal(err)
	}
	for good := false; !good; {
		c, err := l.Accept(ctx)
		if err != nil {
			l.Close() // or the dialer would wait
			t.Error(err)
			break
		}
		good = c.PeerAddr().Addr() == from[0].GID.Addr()
		defer c.Close()
	}
	if c := <-dialed; c != nil {
		c.Close()
	}
}

// TestIWARPAcceptGone has a peer request a connection, and go away before Accept: Accept does not
// report it.
func TestIWARPAcceptGone(t *testing.T) {
	ctx := bounded(t)
	l, conn := listenAsked(t, ctx, enhanced(wire.Enhanced{PeerToPeer: true, RTRWrite: true}))
	conn.SetLinger(0)
	conn.Close()
	acceptsFrom(t, ctx, l, openIWARP(t))
}

// TestIWARPAcceptUnusable has a peer ask for a ready-to-receive message without offering a type of
// it. The peer is rejected, and Accept does not report it.
func TestIWARPAcceptUnusable(t *testing.T) {
	ctx := bounded(t)
	l, conn := listenAsked(t, ctx, enhanced(wire.Enhanced{PeerToPeer: true}))
	acceptsFrom(t, ctx, l, openIWARP(t))
	var f wire.Frame
	reply := make([]byte, wire.FrameHeaderLen)
	if _, err := io.ReadFull(conn, reply); err != nil || !f.Decode(reply) || f.Flags&wire.FlagReject == 0 {
		t.Errorf("the reply is %+v, %v", f, err)
	}
}

// TestIWARPReservedFlag has a peer of revision 1 set a flag that means something since revision 2 only:
// it does not count (RFC 5044 section 7.1), and the peer may READ.
func TestIWARPReservedFlag(t *testing.T) {
	t.Parallel()
	ctx := bounded(t)
	l, _ := listenAsked(t, ctx, (&wire.Frame{Kind: wire.Request, Revision: 1, Flags: wire.FlagEnhanced}).Append(nil))
	c, err := l.Accept(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if p := c.Param(); p.ResponderResources == 0 {
		t.Errorf("no READs are answered: %+v", p)
	}
}

// TestIWARPWithdrawnRequests has peers request connections and go away at once: nothing is left of that in the
// program's queue. A program that has fetched the request gets an event of its end.
func TestIWARPWithdrawnRequests(t *testing.T) {
	ctx := bounded(t)
	frame := enhanced(wire.Enhanced{PeerToPeer: true, RTRWrite: true})
	l, conn := listenAsked(t, ctx, frame)
	for range 100 {
		eventually(t, func() bool { return l.QueuedEvents() == 1 }, "the request arrives")
		conn.Close()
		eventually(t, func() bool { return l.QueuedEvents() == 0 && l.ID().Requests() == 0 }, "nothing is left of it")
		next, err := net.Dial("tcp", l.Addr().String())
		ok(t, err)
		conn = next.(*net.TCPConn)
		_, err = conn.Write(frame)
		ok(t, err)
	}
	r, err := l.Next(ctx)
	ok(t, err)
	conn.Close()
	eventually(t, func() bool { return l.ID().Requests() == 0 }, "it is heard of")
	if _, err := r.Accept(ctx); !errors.Is(err, cm.ErrDisconnected) {
		t.Errorf("accepting what was withdrawn: %v", err)
	}
}
