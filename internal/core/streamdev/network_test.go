// SPDX-License-Identifier: Apache-2.0

package streamdev

import (
	"io"
	"net/netip"
	"syscall"
	"testing"
	"time"

	"github.com/ramjet-rdma/ramjet/internal/core/softdev"
	"github.com/ramjet-rdma/ramjet/internal/engine/rdmap"
	"github.com/ramjet-rdma/ramjet/internal/testkit/memhub"
	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/verbs/driver"
	"github.com/ramjet-rdma/ramjet/wire/ib"
)

// web joins networks in memory, whose links hold as many bytes as are written.
type web struct {
	memhub.Changes // guards all that is in it
	nets           int
	acceptors      map[netip.AddrPort]*memAcceptor
}

// memNet is a network of a web.
type memNet struct {
	memhub.Waiter
	web    *web
	addr   netip.Addr
	links  map[*memLink]bool
	takers map[*memAcceptor]bool
	blind  bool       // Wait does not see what has arrived
	dialed []*memLink // all that it ever dialed
}

// newNet adds a network to the web.
func (w *web) newNet() *memNet {
	w.Mu.Lock()
	defer w.Mu.Unlock()
	if w.acceptors == nil {
		w.acceptors = make(map[netip.AddrPort]*memAcceptor)
	}
	w.nets++
	return &memNet{Waiter: memhub.Waiter{In: &w.Changes}, web: w,
		addr: netip.AddrFrom4([4]byte{10, 0, 0, byte(w.nets)}), links: make(map[*memLink]bool),
		takers: make(map[*memAcceptor]bool)}
}

func (n *memNet) Follow(func(int, ...verbs.EventType)) {}
func (n *memNet) StopFollowing()                       {}
func (n *memNet) Ports() int                           { return 1 }

func (n *memNet) Info(int) softdev.PortInfo {
	return softdev.PortInfo{PortAttr: verbs.PortAttr{State: verbs.PortActive, Link: verbs.LinkEthernet,
		MaxMTU: verbs.MTU4096, ActiveMTU: verbs.MTU1024},
		GIDTable:  []verbs.GIDEntry{{GID: ib.GIDFromAddr(n.addr), Type: verbs.GIDiWARP}},
		PKeyTable: softdev.OnePartition}
}

func (n *memNet) Resolve(*verbs.AHAttr) error { return nil }
func (n *memNet) Proposal() rdmap.Proposal {
	return rdmap.Proposal{ULPDU: rdmap.MaxULPDU, IRD: 16, ORD: 16}
}
func (n *memNet) Arriving() bool           { return false }
func (n *memNet) SetupTime() time.Duration { return time.Minute }

func (n *memNet) newLink(from, to netip.AddrPort) *memLink {
	l := &memLink{net: n, from: from, to: to}
	n.links[l] = true
	return l
}

func (n *memNet) Dial(from, to netip.AddrPort, _ uint8) (Link, error) {
	var l *memLink
	n.web.Change(func() {
		if a := n.web.acceptors[to]; a != nil {
			l = n.newLink(from, to)
			n.dialed = append(n.dialed, l)
			l.peer = a.net.newLink(to, from)
			l.peer.peer = l
			a.links = append(a.links, l.peer)
		}
	})
	if l == nil {
		return nil, syscall.ECONNREFUSED
	}
	return l, nil
}

func (n *memNet) Listen(at netip.AddrPort, _ int) (Acceptor, error) {
	a := &memAcceptor{net: n, at: at}
	n.web.Change(func() { n.web.acceptors[at], n.takers[a] = a, true })
	return a, nil
}

func (n *memNet) Ready(f func(owner any, read, write bool)) int {
	type ready struct {
		link        *memLink
		owner       any
		read, write bool
	}
	var all []ready
	n.web.Change(func() {
		for l := range n.links {
			if r, w := l.can(); r || w {
				all = append(all, ready{l, l.owner, r, w})
			}
		}
		for a := range n.takers {
			if len(a.links) > 0 {
				all = append(all, ready{nil, a.owner, true, false})
			}
		}
	})
	for _, r := range all {
		if r.link == nil || !r.link.closed { // by an earlier one
			f(r.owner, r.read, r.write)
		}
	}
	return len(all)
}

// isReady reports whether Ready has something; the web's lock is held.
func (n *memNet) isReady() bool {
	for l := range n.links {
		if r, w := l.can(); r || w {
			return true
		}
	}
	for a := range n.takers {
		if len(a.links) > 0 {
			return true
		}
	}
	return false
}

func (n *memNet) Wait() error {
	return n.WaitFor(func() bool { return !n.blind && n.isReady() })
}

// memAcceptor takes the links of a memNet.
type memAcceptor struct {
	net   *memNet
	at    netip.AddrPort
	owner any
	links []*memLink
}

func (a *memAcceptor) Own(owner any) { a.net.web.Change(func() { a.owner = owner }) }

func (a *memAcceptor) Accept() (Link, error) {
	var l *memLink
	a.net.web.Change(func() {
		if len(a.links) > 0 {
			l, a.links = a.links[0], a.links[1:]
		}
	})
	if l == nil {
		return nil, softdev.ErrAgain
	}
	return l, nil
}

func (a *memAcceptor) Watch(bool)           {}
func (a *memAcceptor) Addr() netip.AddrPort { return a.at }

func (a *memAcceptor) Close() error {
	a.net.web.Change(func() { delete(a.net.web.acceptors, a.at); delete(a.net.takers, a) })
	return nil
}

// memLink is one end of a link.
type memLink struct {
	net      *memNet
	peer     *memLink
	from, to netip.AddrPort
	owner    any
	in       []byte
	end      bool // of in
	reading  bool
	writing  bool
	closed   bool
	aborted  bool // so
	held     bool // what arrives is not shown
	full     bool // it takes nothing
}

// can returns the events that Ready reports; the web's lock is held.
func (l *memLink) can() (read, write bool) {
	return l.reading && l.owner != nil && !l.held && (len(l.in) > 0 || l.end), l.writing && l.owner != nil && !l.full
}

func (l *memLink) Own(owner any) { l.net.web.Change(func() { l.owner = owner }) }
func (l *memLink) Watch(read, write bool) {
	l.net.web.Change(func() { l.reading, l.writing = read, write })
}
func (l *memLink) Connected() error { return nil }
func (l *memLink) Starting() bool   { return false }
func (l *memLink) Silent() bool     { return false }

func (l *memLink) Ended() bool {
	l.net.web.Mu.Lock()
	defer l.net.web.Mu.Unlock()
	return l.end
}

func (l *memLink) MSS() int { return 1460 }

func (l *memLink) Read(pieces [][]byte) (n int, err error) {
	l.net.web.Change(func() {
		if l.held {
			return
		}
		for _, p := range pieces {
			k := copy(p, l.in)
			l.in = l.in[k:]
			n += k
		}
		if n == 0 && l.end {
			err = io.EOF
		}
	})
	if n == 0 && err == nil {
		err = softdev.ErrAgain
	}
	return n, err
}

func (l *memLink) Write(pieces [][]byte) (n int, err error) {
	l.net.web.Change(func() {
		if l.full {
			err = softdev.ErrAgain
			return
		}
		for _, p := range pieces {
			l.peer.in = append(l.peer.in, p...)
			n += len(p)
		}
	})
	return n, err
}

func (l *memLink) Shutdown() { l.net.web.Change(func() { l.peer.end = true }) }

func (l *memLink) Close(abort bool) {
	l.net.web.Change(func() { l.peer.end, l.closed, l.aborted = true, true, abort; delete(l.net.links, l) })
}

func (l *memLink) LocalAddr() netip.AddrPort { return l.from }
func (l *memLink) PeerAddr() netip.AddrPort  { return l.to }

// hold keeps arriving bytes from the link, or shows them.
func (l *memLink) hold(yes bool) { l.net.web.Change(func() { l.held = yes }) }

// streamSide is a device on a web.
type streamSide struct {
	t    *testing.T
	net  *memNet
	soft *Device
	dev  *verbs.Device
	pd   *verbs.PD
	cq   *verbs.CQ
	mr   *verbs.MR
}

func (w *web) newSide(t *testing.T) *streamSide {
	t.Helper()
	s := &streamSide{t: t, net: w.newNet()}
	var err error
	s.soft, err = New("test", "test", 1, s.net)
	s.ok(err)
	s.dev = driver.NewDevice(s.soft)
	t.Cleanup(func() { s.dev.Close() })
	s.pd, err = s.dev.AllocPD()
	s.ok(err)
	s.cq, err = s.dev.CreateCQ(256, &verbs.CQOptions{Spin: -1})
	s.ok(err)
	s.mr, err = s.pd.RegMR(make([]byte, 1<<20), verbs.LocalWrite|verbs.RemoteWrite|verbs.RemoteRead)
	s.ok(err)
	return s
}

func (s *streamSide) ok(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

// newQP makes a queue pair, which takes its receives from srq if that is set.
func (s *streamSide) newQP(srq *verbs.SRQ) (*verbs.QP, verbs.Endpoint) {
	s.t.Helper()
	qp, err := s.pd.CreateQP(verbs.QPInit{Type: verbs.RC, SendCQ: s.cq, RecvCQ: s.cq, SRQ: srq,
		Cap: verbs.QPCap{MaxSendWR: 64, MaxRecvWR: 64}})
	s.ok(err)
	ep, err := qp.Endpoint(0)
	s.ok(err)
	return qp, ep
}

// join connects a queue pair of each, and waits until both have heard of each other: then neither
// prompts the other.
func (s *streamSide) join(to *streamSide, srq *verbs.SRQ) (a, b *verbs.QP) {
	s.t.Helper()
	a, ea := s.newQP(nil)
	b, eb := to.newQP(srq)
	s.ok(a.Connect(ea, eb, nil))
	s.ok(b.Connect(eb, ea, nil))
	s.post(a, to, 0, verbs.OpWrite)
	to.post(b, s, 0, verbs.OpWrite)
	s.wait()
	to.wait()
	s.eventually(func() bool { return s.heard(a) && to.heard(b) }, "both have a stream")
	return a, b
}

// up reports whether a queue pair has a stream.
func (s *streamSide) up(qp *verbs.QP) bool {
	s.soft.Lane.Mu.Lock()
	defer s.soft.Lane.Mu.Unlock()
	return s.soft.findQP(qp.Num()).Engine.Up()
}

// heard reports whether the peer of a queue pair has sent something.
func (s *streamSide) heard(qp *verbs.QP) bool {
	s.soft.Lane.Mu.Lock()
	defer s.soft.Lane.Mu.Unlock()
	q := s.soft.findQP(qp.Num()).Engine.(*rdmap.QP)
	return q.Up() && !q.Quiet()
}

// paused reports whether a queue pair waits for a receive.
func (s *streamSide) paused(qp *verbs.QP) bool {
	s.soft.Lane.Mu.Lock()
	defer s.soft.Lane.Mu.Unlock()
	return s.soft.findQP(qp.Num()).Engine.Paused()
}

// state returns the state of a queue pair, for which nothing is moved.
func (s *streamSide) state(qp *verbs.QP) verbs.QPState {
	s.soft.Lane.Mu.Lock()
	defer s.soft.Lane.Mu.Unlock()
	return s.soft.findQP(qp.Num()).Engine.State()
}

// rest waits until the device's goroutine sleeps at the network, and is going to for long.
func (s *streamSide) rest() {
	s.t.Helper()
	s.eventually(func() bool {
		s.net.web.Mu.Lock()
		defer s.net.web.Mu.Unlock()
		d := s.net.Deadline
		return s.net.Waiting.Load() == 1 && (d.IsZero() || time.Until(d) > soon)
	}, "the goroutine sleeps at the network")
}

// eventually waits for a condition that must come true.
func (s *streamSide) eventually(cond func() bool, what string) {
	s.t.Helper()
	for end := time.Now().Add(2 * time.Minute); !cond(); time.Sleep(50 * time.Microsecond) {
		if time.Now().After(end) {
			s.t.Fatal("never: " + what)
		}
	}
}

// wait waits for a completion, asleep.
func (s *streamSide) wait() verbs.WC {
	s.t.Helper()
	var wc [1]verbs.WC
	_, err := s.cq.Wait(s.t.Context(), wc[:])
	s.ok(err)
	return wc[0]
}
