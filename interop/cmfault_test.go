// SPDX-License-Identifier: Apache-2.0

//go:build interop

package interop

import (
	"errors"
	"io"
	"net"
	"strconv"
	"testing"
	"time"

	"github.com/ramjet-rdma/ramjet/cm"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// TestCMLoss drops 5% of the connection managers' messages, in both directions, lets 10% come
// twice and some overtake others, and leaves all else alone: every message is repeated until
// it is answered, and none that comes twice or late does harm.
func TestCMLoss(t *testing.T) {
	disturbance := []string{"loss", "5%", "duplicate", "10%", "delay", "2ms", "3ms"}
	c := matose{connections: 40, size: 100, count: 10}
	disturb := func(t *testing.T) {
		g := dialGuest(t, false)
		for _, direction := range []string{"out", "in"} {
			g.call("netem", args{"direction": direction, "args": disturbance, "qpn": 1}, nil)
		}
		t.Cleanup(func() { // before its connection is closed
			for _, direction := range []string{"out", "in"} {
				sent, lost := g.netemStats(direction)
				t.Logf("%s: %d datagrams, %d of them lost", direction, sent+lost, lost)
				if sent < 2*c.connections {
					t.Errorf("only %d datagrams met the filter", sent)
				}
			}
			g.call("netem_off", nil, nil)
		})
	}
	t.Run("ramjet→rxe", func(t *testing.T) {
		g, m := dialGuest(t, false), openManager(t, false)
		disturb(t)
		server := g.spawnCM(matosePort, c.argv("-b", guestIPv4)...)
		c.connect(m)
		wantProgram(t, "server", server.wait(programTimeout), matoseDone)
	})
	t.Run("rxe→ramjet", func(t *testing.T) {
		g, m := dialGuest(t, false), openManager(t, false)
		disturb(t)
		var client *job
		c.serve(m, func() { client = g.spawn(0, c.argv("-s", hostIPv4)...) })
		wantProgram(t, "client", client.wait(programTimeout), matoseDone)
	})
}

// kill ends a program in the guest with SIGKILL.
func (j *job) kill() {
	j.g.t.Helper()
	if r := j.wait(time.Millisecond); !r.TimedOut {
		j.g.t.Fatalf("it has ended before: exit %d:\n%s", r.Exit, r.Output)
	}
}

// ends waits until a connection is reported as ended, and closes it.
func (m *manager) ends(conn *cm.Conn) {
	m.t.Helper()
	for {
		b, err := conn.Recv(m.ctx)
		if errors.Is(err, io.EOF) {
			break
		}
		m.ok(err)
		b.Release()
	}
	select {
	case <-conn.Done():
	case <-m.ctx.Done():
		m.t.Error("the connection is not told as ended")
	}
	if err := conn.Send(m.ctx, []byte("anybody?")); !errors.Is(err, cm.ErrDisconnected) {
		m.t.Errorf("sending on the connection that has ended: %v", err)
	}
	m.ok(conn.Close())
}

// TestConnectionPeerKilled kills the guest's program in the middle of its messages: its kernel
// ends the connection, and Ramjet's side gets the end. Then the same again, to the same port.
func TestConnectionPeerKilled(t *testing.T) {
	const size = 32 << 10
	argv := []string{"ucmatose", "-p", strconv.Itoa(matosePort), "-C", "3000", "-S", strconv.Itoa(size)}
	options := []cm.Option{cm.WithRecvSize(size), cm.WithDepth(4, 64)}
	for _, f := range families {
		t.Run("server/"+f.name, func(t *testing.T) {
			for range 2 {
				g, m := dialGuest(t, f.ipv6), openManager(t, f.ipv6)
				server := g.spawnCM(matosePort, append(argv, "-b", f.guest)...)
				conn, err := cm.Dial(m.ctx, m.dev, net.JoinHostPort(f.guest, strconv.Itoa(matosePort)), options...)
				must(t, conn, err)
				b, err := conn.Recv(m.ctx)
				if must(t, b, err); b.WC.ByteLen != size {
					t.Errorf("a message of %d bytes", b.WC.ByteLen)
				}
				b.Release()
				server.kill()
				m.ends(conn)
				m.ok(m.dev.Close())
			}
		})
		t.Run("client/"+f.name, func(t *testing.T) {
			g, m := dialGuest(t, f.ipv6), openManager(t, f.ipv6)
			l, err := cm.Listen(t.Context(), m.dev, ":"+strconv.Itoa(matosePort), options...)
			must(t, l, err)
			for range 2 {
				client := g.spawn(0, append(argv, "-s", f.host)...)
				conn, err := l.Accept(m.ctx)
				must(t, conn, err)
				m.ok(conn.Send(m.ctx, make([]byte, size)))
				client.kill()
				m.ends(conn)
			}
			m.ok(l.Close())
		})
	}
}

// TestConnectionCutOff cuts the link in the middle of a connection: sends fail, the connection
// is reported as ended, and closing it does not wait for the peer for ever.
func TestConnectionCutOff(t *testing.T) {
	g, m := dialGuest(t, false), openManager(t, false)
	server := g.spawnCM(matosePort, "ucmatose", "-p", strconv.Itoa(matosePort), "-b", guestIPv4, "-C", "100", "-S",
		"1000")
	conn, err := cm.Dial(m.ctx, m.dev, net.JoinHostPort(guestIPv4, strconv.Itoa(matosePort)),
		// 0.13 s, three times again: rxe repeats for ever where it is seven
		cm.WithAckTimeout(15), cm.WithRetries(3, 7),
		cm.WithDepth(cm.DefaultSendDepth, 128)) // no RNR NAKs for rxe, see the README
	must(t, conn, err)
	b, err := conn.Recv(m.ctx)
	must(t, b, err)
	b.Release()
	g.netem("in", "loss", "100%")
	// If the guest has something under way yet, it notices first, and then says so.
	over := func(err error) bool {
		return errors.Is(err, io.EOF) || errors.Is(err, cm.ErrDisconnected) ||
			errors.Is(err, verbs.StatusRetryExceeded.Err())
	}
	if err := conn.Send(m.ctx, make([]byte, 1000)); !over(err) {
		t.Errorf("sending over the cut: %v", err)
	}
	if state := conn.QP().State(); state != verbs.StateError {
		t.Errorf("the queue pair is in %v", state)
	}
	for err = nil; err == nil; {
		if b, err = conn.Recv(m.ctx); err == nil {
			b.Release()
		}
	}
	if !over(err) {
		t.Errorf("receiving over the cut: %v", err)
	}
	select {
	case <-conn.Done():
	case <-m.ctx.Done():
		t.Error("the connection is not told as ended")
	}
	m.ok(conn.Close())
	server.wait(time.Millisecond)
}
