// SPDX-License-Identifier: Apache-2.0

//go:build interop

package interop

import (
	"context"
	"io"
	"net"
	"strconv"
	"testing"
	"time"

	"github.com/ramjet-rdma/ramjet/cm"
	"github.com/ramjet-rdma/ramjet/verbs"
)

const cmtimePort = 7480

// cmtimeSync is the TCP connection on which the two sides of cmtime keep step: the client
// says where it is, and the server repeats it when it is there too. Its end ends the test's
// waits: cmtime has given up, and nothing more will happen.
type cmtimeSync struct {
	t      testing.TB
	conn   net.Conn
	client bool
	said   chan byte
}

// The steps that cmtime's two sides do together, by its numbers.
const (
	cmtimeStart        = 0
	cmtimeConnected    = 12
	cmtimeDisconnected = 14
)

func newCmtimeSync(m *manager, conn net.Conn, client bool) cmtimeSync {
	s := cmtimeSync{m.t, conn, client, make(chan byte, 1)}
	m.t.Cleanup(func() { conn.Close() })
	var cancel context.CancelFunc
	m.ctx, cancel = context.WithCancel(m.ctx)
	conn.SetDeadline(time.Now().Add(programTimeout))
	go func() {
		defer cancel()
		defer close(s.said)
		for b := make([]byte, 1); ; {
			if _, err := io.ReadFull(conn, b); err != nil {
				return
			}
			s.said <- b[0]
		}
	}()
	return s
}

func (s cmtimeSync) step(n byte) {
	s.t.Helper()
	say := func() {
		s.t.Helper()
		if _, err := s.conn.Write([]byte{n}); err != nil {
			s.t.Fatal(err)
		}
	}
	if s.client {
		say()
	}
	if got, ok := <-s.said; !ok || got != n {
		s.t.Fatalf("the other side is at step %d, want %d; it is still there: %v", got, n, ok)
	}
	if !s.client {
		say()
	}
}

// timed is one connection of cmtime, whose queue pair is the program's and not the id's. In
// the last round there is none, only a number that no other connection has.
type timed struct {
	m   *manager
	id  *cm.ID
	qp  *verbs.QP
	num verbs.QPN
}

// nextNoQP is the number of the next queue pair that does not exist. Managers do not take
// a number again before its last connection's time wait is over.
var nextNoQP verbs.QPN = 5000

func (m *manager) timed(id *cm.ID, cq *verbs.CQ, withQP bool) *timed {
	m.t.Helper()
	c := &timed{m: m, id: id, num: nextNoQP}
	if !withQP {
		nextNoQP++
		return c
	}
	var err error
	c.qp, err = m.pd.CreateQP(verbs.QPInit{Type: verbs.RC, SendCQ: cq, RecvCQ: cq,
		Cap: verbs.QPCap{MaxSendWR: 1, MaxRecvWR: 1, MaxSendSGE: 1, MaxRecvSGE: 1}})
	c.num = must(m.t, c.qp, err).Num()
	return c
}

// param is the parameter that cmtime asks for on both sides.
func (c *timed) param() *cm.ConnParam {
	return &cm.ConnParam{ResponderResources: 1, InitiatorDepth: 1, QPNum: c.num}
}

// to brings the queue pair to further states.
func (c *timed) to(states ...verbs.QPState) {
	c.m.t.Helper()
	for _, s := range states {
		attr, mask, err := c.id.InitQPAttr(s)
		c.m.ok(err)
		if c.qp != nil {
			c.m.ok(c.qp.Modify(attr, mask))
		}
	}
}

func (c *timed) close() {
	c.m.t.Helper()
	c.m.ok(c.id.Close())
	if c.qp != nil {
		c.m.ok(c.qp.Close())
	}
}

// tellsAtFailure prints the program's output if the test fails before it looks itself.
func (j *job) tellsAtFailure() {
	j.g.t.Cleanup(func() {
		if j.g.t.Failed() {
			r := j.wait(time.Second)
			j.g.t.Logf("cmtime: exit %d, ended by itself: %v:\n%s", r.Exit, !r.TimedOut, r.Output)
		}
	})
}

// cmtimeRounds are how cmtime goes through its connections: one to warm up, all of them, all
// of them with no queue pair behind.
func cmtimeRounds(connections int) []struct {
	n      int
	withQP bool
} {
	return []struct {
		n      int
		withQP bool
	}{{1, true}, {connections, true}, {connections, false}}
}

// TestCmtime sets up and tears down connections with rdma-core's cmtime: the queue pairs
// belong to the programs on both sides, which take them through their states themselves
// (rdma_init_qp_attr, rdma_establish).
func TestCmtime(t *testing.T) {
	const connections = 50
	argv := []string{"cmtime", "-p", strconv.Itoa(cmtimePort), "-c", strconv.Itoa(connections)}
	address := func(host string) string { return net.JoinHostPort(host, strconv.Itoa(cmtimePort)) }
	done := "cm_conn " // the heading of the last round's figures

	t.Run("ramjet→rxe", func(t *testing.T) {
		g, m := dialGuest(t, false), openManager(t, false)
		cq, err := m.dev.CreateCQ(2, nil)
		must(t, cq, err)
		server := g.spawn(cmtimePort, append(argv, "-b", guestIPv4, "-q", "20000")...)
		server.tellsAtFailure()
		conn, err := net.DialTimeout("tcp4", address(guestIPv4), programTimeout)
		sync := newCmtimeSync(m, must(t, conn, err), true)
		for _, r := range cmtimeRounds(connections) {
			sync.step(cmtimeStart)
			conns := map[*cm.ID]*timed{}
			for range r.n {
				c := m.timed(m.resolve(cm.TCP, cmtimePort), cq, r.withQP)
				c.to(verbs.StateInit)
				conns[c.id] = c
			}
			for _, c := range conns {
				m.ok(c.id.Connect(c.param()))
			}
			for range conns {
				c := conns[m.event(cm.ConnectResponse).ID]
				c.to(verbs.StateRTR, verbs.StateRTS)
				m.ok(c.id.Establish())
			}
			sync.step(cmtimeConnected)
			for id := range conns {
				m.ok(id.Disconnect())
			}
			for range conns {
				m.event(cm.Disconnected)
			}
			sync.step(cmtimeDisconnected)
			for _, c := range conns {
				c.close()
			}
		}
		wantProgram(t, "server", server.wait(programTimeout), done)
	})

	t.Run("rxe→ramjet", func(t *testing.T) {
		g, m := dialGuest(t, false), openManager(t, false)
		cq, err := m.dev.CreateCQ(2, nil)
		must(t, cq, err)
		listener := m.listen(cm.TCP, cmtimePort)
		l, err := net.Listen("tcp4", address(hostIPv4))
		must(t, l, err)
		defer l.Close()
		client := g.spawn(0, append(argv, "-s", hostIPv4, "-q", "30000")...)
		client.tellsAtFailure()
		l.(*net.TCPListener).SetDeadline(time.Now().Add(programTimeout))
		conn, err := l.Accept()
		sync := newCmtimeSync(m, must(t, conn, err), false)
		for _, r := range cmtimeRounds(connections) {
			sync.step(cmtimeStart)
			var conns []*timed
			for established := 0; established < r.n; {
				e, err := m.ch.Get(m.ctx)
				switch must(t, e, err); e.Type {
				case cm.ConnectRequest:
					c := m.timed(e.ID, cq, r.withQP)
					c.to(verbs.StateInit, verbs.StateRTR, verbs.StateRTS)
					m.ok(c.id.Accept(c.param()))
					conns = append(conns, c)
				case cm.Established:
					established++
				case cm.TimewaitExit:
				default:
					t.Fatalf("event %q: %v", e.Type, e.Err)
				}
			}
			sync.step(cmtimeConnected)
			for range conns {
				m.ok(m.event(cm.Disconnected).ID.Disconnect())
			}
			sync.step(cmtimeDisconnected)
			for _, c := range conns {
				c.close()
			}
		}
		wantProgram(t, "client", client.wait(programTimeout), done)
		m.ok(listener.Close())
	})
}
