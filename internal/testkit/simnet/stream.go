// SPDX-License-Identifier: Apache-2.0

package simnet

import (
	"fmt"
	"io"
	"net/netip"
	"slices"
	"syscall"
	"time"

	"github.com/ramjet-rdma/ramjet/internal/core/softdev"
	"github.com/ramjet-rdma/ramjet/internal/core/streamdev"
	"github.com/ramjet-rdma/ramjet/internal/engine/rdmap"
	"github.com/ramjet-rdma/ramjet/verbs"
)

const (
	// mss is the bytes of a segment.
	mss = 1448
	// streamWindow is how many bytes a stream holds that the peer has not read.
	streamWindow = 128 << 10
	// firstRetry is when a segment is sent again first, synRetry when the first one of a stream is;
	// the time doubles up to lastRetry.
	firstRetry = instant(200 * time.Millisecond)
	synRetry   = instant(time.Second)
	lastRetry  = instant(60 * time.Second)
	// synTries is how often a peer is asked for a stream. Chance loses the first synLosses of them at most, and
	// devices wait for as many; see Streams.SetupTime.
	synTries  = 7
	synLosses = 2
	// A peer that is silent for keepSilence is gone. It is asked every keepBeat.
	keepBeat    = instant(5 * time.Second)
	keepSilence = instant(30 * time.Second)
	// firstPort is the first of the ports that programs have not chosen.
	firstPort = 33000
)

// Streams carries streams of bytes to the hosts of a network, as TCP does.
type Streams struct {
	waiter
	changed   func(int, ...verbs.EventType)
	links     []*link // in the order in which they were made
	acceptors []*acceptor
	port      uint16
	killed    bool
	removed   bool
	closed    bool
}

func newStreams(h *Host) *Streams { return &Streams{waiter: newWaiter(h), port: firstPort} }

func (s *Streams) streams() *Streams { return s }

// Ports: a host has one.
func (s *Streams) Ports() int { return 1 }

// Info returns the port's attributes and its tables.
func (s *Streams) Info(int) softdev.PortInfo { return s.host.info(verbs.GIDiWARP) }

// Follow has changed called for each event of the port. The MTU stays.
func (s *Streams) Follow(changed func(port int, events ...verbs.EventType)) {
	s.net.mu.Lock()
	defer s.net.mu.Unlock()
	s.changed = changed
}

// StopFollowing ends Follow.
func (s *Streams) StopFollowing() { s.Follow(nil) }

func (s *Streams) follow(e verbs.EventType) {
	s.net.mu.Lock()
	changed := s.changed
	s.net.mu.Unlock()
	if changed != nil {
		changed(1, e)
	}
}

// AllocAddr returns an address for a region.
func (s *Streams) AllocAddr(size int) uint64 { return s.host.AllocAddr(size) }

// RefuseRegion returns why a region is refused.
func (s *Streams) RefuseRegion() error { return s.host.refuseRegion() }

// Resolve checks an address vector.
func (s *Streams) Resolve(a *verbs.AHAttr) error {
	if to := a.DGID.Addr(); a.SGIDIndex != 0 || !to.Is4() || to.IsUnspecified() || to.IsMulticast() {
		return &verbs.OpError{Op: "modify_qp", Err: verbs.ErrInvalid,
			Detail: "DGID is no IPv4 address of a host, or SGIDIndex is not 0"}
	}
	return nil
}

// Proposal returns the device's parameters for the set-up of streams.
func (s *Streams) Proposal() rdmap.Proposal {
	return rdmap.Proposal{CRC: true, ULPDU: rdmap.MaxULPDU, IRD: 128, ORD: 128}
}

// Arriving is false: links are whole when they are accepted.
func (s *Streams) Arriving() bool { return false }

// SetupTime is that of a link whose first segment is lost twice.
func (s *Streams) SetupTime() time.Duration { return 4 * time.Second }

// find returns the acceptor of links at an address and port.
func (n *Net) find(at netip.AddrPort) *acceptor {
	h := n.hostAt(at.Addr())
	if h == nil {
		return nil
	}
	for _, d := range h.open {
		s, ok := d.(interface{ streams() *Streams })
		if !ok {
			continue
		}
		for _, a := range s.streams().acceptors {
			if a.at == at {
				return a
			}
		}
	}
	return nil
}

// Listen takes links.
func (s *Streams) Listen(at netip.AddrPort, backlog int) (streamdev.Acceptor, error) {
	s.net.mu.Lock()
	defer s.net.mu.Unlock()
	if s.removed {
		return nil, syscall.ENETDOWN
	}
	if at.Port() == 0 {
		at = s.freePort(at)
	}
	if s.net.find(at) != nil {
		return nil, fmt.Errorf("listening at %v: %w", at, syscall.EADDRINUSE)
	}
	a := &acceptor{streams: s, at: at, backlog: max(1, backlog), watched: true}
	s.acceptors = append(s.acceptors, a)
	return a, nil
}

func (s *Streams) freePort(at netip.AddrPort) netip.AddrPort {
	s.port++
	return netip.AddrPortFrom(at.Addr(), s.port)
}

// Dial begins to make a link.
func (s *Streams) Dial(from, to netip.AddrPort, tos uint8) (streamdev.Link, error) {
	n := s.net
	n.mu.Lock()
	defer n.mu.Unlock()
	if from.Port() == 0 {
		from = s.freePort(netip.AddrPortFrom(s.host.addr, 0))
	}
	l := &link{streams: s, from: from, to: to, connecting: true, heard: n.now()}
	s.links = append(s.links, l)
	if s.removed {
		l.fail(syscall.ENETDOWN)
		return l, nil
	}
	n.line("syn", from, to, nil)
	l.ask(1)
	return l, nil
}

// Ready calls f for links that can be read or written, in the order in which they were made.
func (s *Streams) Ready(f func(owner any, read, write bool)) int {
	type todo struct {
		owner       any
		read, write bool
		gone        func() bool
	}
	var found []todo
	s.net.mu.Lock()
	for _, a := range s.acceptors {
		if a.ready() {
			found = append(found, todo{a.owner, true, false, func() bool { return a.closed }})
		}
	}
	for _, l := range s.links {
		if read, write, ok := l.ready(); ok {
			l.reported = l.broken()
			found = append(found, todo{l.owner, read, write, func() bool { return l.closed }})
		}
	}
	if s.host.stopped || s.killed {
		found = nil
	}
	s.net.mu.Unlock()
	did := 0
	for _, t := range found {
		s.net.mu.Lock()
		gone := t.gone() // by an earlier one
		s.net.mu.Unlock()
		if !gone && t.owner != nil {
			did++
			f(t.owner, t.read, t.write)
		}
	}
	return did
}

// Wait blocks until Ready has something to report, the deadline passes, or Wake is called.
func (s *Streams) Wait() error {
	return s.wait(func() bool {
		if s.closed {
			return true
		}
		if s.host.stopped || s.killed {
			return false
		}
		for _, l := range s.links {
			if _, _, ok := l.ready(); ok {
				return true
			}
		}
		return slices.ContainsFunc(s.acceptors, (*acceptor).ready)
	})
}

// Close closes the links that are left.
func (s *Streams) Close() error {
	s.net.mu.Lock()
	defer s.net.mu.Unlock()
	s.closed = true
	s.kill()
	return nil
}

// kill closes everything, as the system does for a process that ends.
func (s *Streams) kill() {
	s.killed = true
	for _, l := range slices.Clone(s.links) {
		l.close(false)
	}
	for _, a := range slices.Clone(s.acceptors) {
		a.close()
	}
	s.look()
}

// remove ends everything as a device does that is taken out: peers are notified, and the program, whose process goes
// on.
func (s *Streams) remove() {
	s.removed = true
	for _, l := range slices.Clone(s.links) {
		if l.err == nil {
			connecting := l.connecting
			l.fail(syscall.ENETDOWN)
			if !connecting {
				l.reset()
			}
		}
	}
	for _, a := range slices.Clone(s.acceptors) {
		a.close()
	}
	s.look()
}

// acceptor takes links at a port.
type acceptor struct {
	streams *Streams
	at      netip.AddrPort
	owner   any
	backlog int
	links   []*link
	watched bool
	closed  bool
}

func (a *acceptor) lock() func() {
	a.streams.net.mu.Lock()
	return a.streams.net.mu.Unlock
}

func (a *acceptor) ready() bool { return a.watched && len(a.links) > 0 }

func (a *acceptor) Own(owner any) {
	defer a.lock()()
	a.owner = owner
}

func (a *acceptor) Accept() (streamdev.Link, error) {
	defer a.lock()()
	if len(a.links) == 0 || a.closed || a.streams.host.stopped || a.streams.killed {
		return nil, softdev.ErrAgain
	}
	l := a.links[0]
	a.links = a.links[1:]
	a.streams.links = append(a.streams.links, l)
	return l, nil
}

func (a *acceptor) Watch(on bool) {
	defer a.lock()()
	a.watched = on
}

func (a *acceptor) Addr() netip.AddrPort { return a.at }

func (a *acceptor) Close() error {
	defer a.lock()()
	a.close()
	return nil
}

// close ends the acceptor and the links that wait in it.
func (a *acceptor) close() {
	if a.closed {
		return
	}
	a.closed = true
	s := a.streams
	s.acceptors = slices.DeleteFunc(s.acceptors, func(o *acceptor) bool { return o == a })
	for _, l := range a.links {
		l.close(true)
	}
}

// link is one end of a stream.
type link struct {
	streams  *Streams
	from, to netip.AddrPort
	owner    any
	peer     *link // nil: the peer has not been asked yet
	// sent and got are the sequence numbers of the next byte, for the pcapng.
	sent, got uint32

	watchRead, watchWrite bool
	reported              bool // ready has reported the break of an unwatched link
	connecting            bool
	closed                bool
	err                   error // why it broke

	arrived []byte // and has not been read
	eof     bool   // nothing follows
	shut    bool   // nothing more is written

	way    segments // to the peer
	unread int      // bytes written that the peer has not read, as far as is known here
	heard  instant  // when the peer was heard of last
}

func (l *link) lock() func() {
	l.streams.net.mu.Lock()
	return l.streams.net.mu.Unlock
}

func (l *link) broken() bool { return l.err != nil || l.eof && l.shut }

func (l *link) room() int { return streamWindow - l.unread }

// ready reports whether the link can be read or written, as epoll would: a break is reported even
// without interest, once.
func (l *link) ready() (read, write, ok bool) {
	if l.broken() {
		watched := l.watchRead || l.watchWrite
		return true, true, watched || !l.reported
	}
	read = l.watchRead && (len(l.arrived) > 0 || l.eof)
	write = l.watchWrite && !l.connecting && l.room() >= streamWindow/3
	return read, write, read || write
}

func (l *link) Own(owner any) {
	defer l.lock()()
	l.owner = owner
}

func (l *link) Watch(read, write bool) {
	defer l.lock()()
	if read != l.watchRead || write != l.watchWrite {
		l.watchRead, l.watchWrite, l.reported = read, write, false
		l.streams.look()
	}
}

func (l *link) Connected() error {
	defer l.lock()()
	switch {
	case l.err != nil:
		return fmt.Errorf("connecting to %v: %w", l.to, l.err)
	case l.connecting:
		return softdev.ErrAgain
	}
	return nil
}

func (l *link) Starting() bool { return false }

// stopped reports whether the link's process cannot do anything.
func (l *link) stopped() bool { return l.streams.host.stopped || l.streams.killed }

func (l *link) Read(pieces [][]byte) (n int, err error) {
	defer l.lock()()
	switch {
	case l.stopped():
		return 0, softdev.ErrAgain
	case l.err != nil:
		return 0, l.err
	case len(l.arrived) == 0 && l.eof:
		return 0, io.EOF
	case len(l.arrived) == 0:
		return 0, softdev.ErrAgain
	}
	for _, p := range pieces {
		k := copy(p, l.arrived)
		l.arrived = l.arrived[k:]
		n += k
	}
	l.tellRoom(n)
	return n, nil
}

// tellRoom has the peer learn that n bytes were read.
func (l *link) tellRoom(n int) {
	peer, net := l.peer, l.streams.net
	back := net.path(l.streams.host, peer.streams.host)
	net.at(net.now()+instant(back.Delay), func() {
		peer.unread -= n
		if !peer.closed {
			peer.streams.look()
		}
	})
}

func (l *link) Write(pieces [][]byte) (n int, err error) {
	defer l.lock()()
	switch {
	case l.stopped() || l.connecting:
		return 0, softdev.ErrAgain
	case l.err != nil:
		return 0, l.err
	case l.shut:
		return 0, syscall.EPIPE
	}
	for _, p := range pieces {
		k := min(len(p), l.room())
		for rest := p[:k]; len(rest) > 0; {
			part := rest[:min(len(rest), l.way.cut(l))]
			rest = rest[len(part):]
			l.way.add(l, segment{data: slices.Clone(part)})
		}
		l.unread += k
		n += k
		if k < len(p) {
			break
		}
	}
	if n == 0 && slices.ContainsFunc(pieces, func(p []byte) bool { return len(p) > 0 }) {
		return 0, softdev.ErrAgain
	}
	return n, nil
}

func (l *link) Shutdown() {
	defer l.lock()()
	l.shutdown()
}

func (l *link) shutdown() {
	if !l.shut && l.err == nil && !l.connecting {
		l.way.add(l, segment{fin: true})
	}
	l.shut = true
}

func (l *link) Close(abort bool) {
	defer l.lock()()
	l.close(abort)
}

// close ends this end. Data on its way goes on, unless it is to be dropped or there is received data
// that will not be read.
func (l *link) close(abort bool) {
	if l.closed {
		return
	}
	l.closed = true
	l.streams.links = slices.DeleteFunc(l.streams.links, func(o *link) bool { return o == l })
	switch {
	case l.connecting || l.err != nil:
	case abort || len(l.arrived) > 0:
		l.reset()
	default:
		l.shutdown()
	}
}

// reset drops data that has not left, and sends the peer a reset.
func (l *link) reset() {
	l.way.drop()
	l.way.add(l, segment{rst: true})
	l.shut = true
}

// fail breaks this end.
func (l *link) fail(err error) {
	if l.err == nil {
		l.err = err
		l.connecting = false
		l.arrived = nil
		l.way.drop()
		l.streams.look()
	}
}

func (l *link) Silent() bool {
	defer l.lock()()
	return l.err == nil && l.way.waits() && l.streams.net.now()-l.heard >= keepSilence
}

func (l *link) Ended() bool {
	defer l.lock()()
	return l.err != nil || l.eof
}

func (l *link) MSS() int                  { return mss }
func (l *link) LocalAddr() netip.AddrPort { return l.from }
func (l *link) PeerAddr() netip.AddrPort  { return l.to }
