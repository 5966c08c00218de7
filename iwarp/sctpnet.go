// SPDX-License-Identifier: Apache-2.0

package iwarp

import (
	"fmt"
	"net/netip"
	"runtime"
	"sync"
	"syscall"
	"time"

	"github.com/ramjet-rdma/ramjet/internal/core/softdev"
	"github.com/ramjet-rdma/ramjet/internal/core/streamdev"
	"github.com/ramjet-rdma/ramjet/internal/engine/rdmap"
	"github.com/ramjet-rdma/ramjet/internal/system/pollwait"
)

// sctpNetwork provides links over SCTP (RFC 5043), which pion/sctp runs in UDP (RFC 6951).
//
// An association has goroutines of its own. They put arriving messages, and the room for new ones, into
// its link. The link goes into a list if its owner waits for that.
type sctpNetwork struct {
	basePort
	mux        *sctpMux
	wakeup     chan struct{}
	closing    chan struct{}
	heartbeats sync.WaitGroup
	closers    sync.WaitGroup // associations that are being ended

	deadline pollwait.Deadline

	mu        sync.Mutex // guards the fields that follow, and the state of links and acceptors
	ready     []sctpReady
	acceptors map[uint16]*sctpAcceptor
	starting  *softdev.HalfOpen[*sctpLink] // associations of peers that are being established
	closed    bool
}

// sctpReady is a link or an acceptor.
type sctpReady interface {
	// take returns the owner that can go on; net.mu is held.
	take() (owner any, read, write bool)
	// relist puts it back into the list if something is left.
	relist()
}

const (
	// sctpStarting limits how many associations of peers are being established.
	sctpStarting = 1024
	// sctpSetupTime limits how long that takes.
	sctpSetupTime = 10 * time.Second
	// A peer that is silent for sctpHeartbeat gets a heartbeat, and is given up after sctpTimeout (RFC
	// 9260 section 8.3).
	sctpHeartbeat = 5 * time.Second
	sctpTimeout   = 30 * time.Second
)

func newSCTPNetwork(addr netip.Addr, opt *Options) (streamdev.Network, error) {
	n := &sctpNetwork{basePort: newLocal(addr, opt), wakeup: make(chan struct{}, 1), closing: make(chan struct{}),
		acceptors: make(map[uint16]*sctpAcceptor),
		starting:  softdev.NewHalfOpen[*sctpLink](sctpStarting)}
	var err error
	if n.mux, err = newSCTPMux(onLink(n.addr, n.dev), n.acceptPeer); err != nil {
		n.StopFollowing()
		return nil, fmt.Errorf("UDP port %d, which is SCTP's (another device with SCTP may have it): %w", sctpPort, err)
	}
	n.heartbeats.Go(n.heartbeat)
	return n, nil
}

// Proposal requests no CRCs and markers: SCTP has checksums and messages.
func (n *sctpNetwork) Proposal() rdmap.Proposal {
	w := n.basePort.Proposal()
	w.CRC, w.Markers = false, false
	return w
}

// packetBytes returns the size limit of an SCTP packet.
func (n *sctpNetwork) packetBytes() int {
	headers := 20 + 8
	if n.addr.Is6() {
		headers = 40 + 8
	}
	return min(n.watch.MTU()-headers, maxPacket)
}

// Dial begins to connect.
func (n *sctpNetwork) Dial(from, to netip.AddrPort, _ uint8) (streamdev.Link, error) {
	p := n.mux.dial(from.Port(), to)
	if p == nil {
		return nil, fmt.Errorf("SCTP port %d to %v: %w", from.Port(), to, syscall.EADDRINUSE)
	}
	l := newSCTPLink(n, p)
	go l.dial()
	return l, nil
}

// acceptPeer takes the packets of a peer that requests an association.
func (n *sctpNetwork) acceptPeer(p *sctpPackets) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	a := n.acceptors[p.key.localPort]
	if a == nil || n.closed {
		return false
	}
	l := newSCTPLink(n, p)
	n.starting.Add(l.to.Addr(), l)
	if n.starting.Full() {
		oldest, _ := n.starting.Oldest()
		n.starting.Remove(oldest.to.Addr(), oldest)
		oldest.packets.Close() // makes serve end
	}
	go l.serve(a)
	return true
}

// Arriving reports whether peers are establishing associations.
func (n *sctpNetwork) Arriving() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.starting.Len() > 0
}

// SetupTime covers an association that loses one of its packets: the library retransmits it after 1
// to 3 s.
func (n *sctpNetwork) SetupTime() time.Duration { return setupTime }

// sctpAcceptor accepts links.
type sctpAcceptor struct {
	net    *sctpNetwork
	at     netip.AddrPort
	owner  any
	links  []*sctpLink
	listed bool
	closed bool
}

// Listen accepts connections.
func (n *sctpNetwork) Listen(at netip.AddrPort, _ int) (streamdev.Acceptor, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	port := at.Port()
	for i := 0; at.Port() == 0 && i < 1<<14; i++ {
		if port = ephemeral(); n.acceptors[port] == nil {
			break
		}
	}
	if n.acceptors[port] != nil {
		return nil, fmt.Errorf("SCTP port %d: %w", port, syscall.EADDRINUSE)
	}
	a := &sctpAcceptor{net: n, at: netip.AddrPortFrom(n.addr, port)}
	n.acceptors[port] = a
	return a, nil
}

func (a *sctpAcceptor) Own(owner any) {
	a.net.mu.Lock()
	defer a.net.mu.Unlock()
	a.owner = owner
}

// add gives the acceptor a link. It returns false if the acceptor is closed. net.mu is held.
func (a *sctpAcceptor) add(l *sctpLink) bool {
	if a.closed {
		return false
	}
	a.links = append(a.links, l)
	a.relist()
	return true
}

func (a *sctpAcceptor) take() (owner any, read, write bool) {
	a.listed = false
	return a.owner, len(a.links) > 0, false
}

func (a *sctpAcceptor) relist() {
	if len(a.links) > 0 && !a.listed {
		a.listed = true
		a.net.list(a)
	}
}

// Accept returns the next link from a peer.
func (a *sctpAcceptor) Accept() (streamdev.Link, error) {
	a.net.mu.Lock()
	defer a.net.mu.Unlock()
	if len(a.links) == 0 {
		return nil, softdev.ErrAgain
	}
	l := a.links[0]
	a.links = a.links[1:]
	return l, nil
}

// Watch does nothing: the links that Accept returns are already there.
func (a *sctpAcceptor) Watch(bool) {}

func (a *sctpAcceptor) Addr() netip.AddrPort { return a.at }

func (a *sctpAcceptor) Close() error {
	n := a.net
	n.mu.Lock()
	delete(n.acceptors, a.at.Port())
	links := a.links
	a.links, a.closed = nil, true
	n.mu.Unlock()
	for _, l := range links {
		l.Close(true)
	}
	return nil
}

// list adds r to the list that Ready goes through. net.mu is held.
func (n *sctpNetwork) list(r sctpReady) {
	n.ready = append(n.ready, r)
	n.Wake()
}

// yield lets the goroutines of associations run: a program that polls would keep them from running.
func (n *sctpNetwork) yield() {
	n.mux.poll()
	runtime.Gosched()
}

// Ready reports the owners of links and acceptors that can go on.
func (n *sctpNetwork) Ready(f func(owner any, read, write bool)) (found int) {
	n.yield()
	n.mu.Lock()
	defer n.mu.Unlock()
	ready := n.ready
	n.ready = nil
	for _, r := range ready {
		owner, read, write := r.take()
		if owner == nil || !read && !write {
			continue
		}
		found++
		n.mu.Unlock()
		f(owner, read, write)
		n.mu.Lock()
		r.relist()
	}
	return found
}

// Wait blocks until Ready has something to report. A link that was read without Ready is still in the list, where what
// arrives for it wakes nobody.
func (n *sctpNetwork) Wait() error {
	n.mu.Lock()
	listed := len(n.ready) > 0
	n.mu.Unlock()
	if listed {
		return nil
	}
	var late <-chan time.Time
	if d := n.deadline.Get(); d != 0 {
		t := time.NewTimer(d.Until())
		defer t.Stop()
		late = t.C
	}
	select {
	case <-n.wakeup:
	case <-late:
	case <-n.closing:
		return syscall.EBADF
	}
	return nil
}

// SetDeadline sets when Wait returns at the latest.
func (n *sctpNetwork) SetDeadline(t time.Time) {
	if n.deadline.Set(t) {
		n.Wake()
	}
}

// Wake wakes Wait.
func (n *sctpNetwork) Wake() {
	select {
	case n.wakeup <- struct{}{}:
	default:
	}
}

// heartbeat sends heartbeats to silent peers.
func (n *sctpNetwork) heartbeat() {
	tick := time.NewTicker(sctpHeartbeat)
	defer tick.Stop()
	for {
		select {
		case <-n.closing:
			return
		case <-tick.C:
			n.mux.each(func(p *sctpPackets) {
				switch silent := -pollwait.Instant(p.heard.Load()).Until(); {
				case silent > sctpTimeout:
					p.Close() // the association ends with it
				case silent > sctpHeartbeat:
					if a := p.assoc.Load(); a != nil {
						a.ActiveHeartbeat()
					}
				}
			})
		}
	}
}

// Close closes the links that are left. Peers are told, if they still receive.
func (n *sctpNetwork) Close() error {
	n.mu.Lock()
	if n.closed {
		n.mu.Unlock()
		return nil
	}
	n.closed = true
	n.mu.Unlock()
	close(n.closing)
	n.closers.Wait() // each is limited in time
	n.heartbeats.Wait()
	n.StopFollowing()
	return n.mux.close()
}
