// SPDX-License-Identifier: Apache-2.0

package iwarp

import (
	"crypto/tls"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ramjet-rdma/ramjet/internal/core/softdev"
	"github.com/ramjet-rdma/ramjet/internal/core/streamdev"
	"github.com/ramjet-rdma/ramjet/internal/engine/rdmap"
	"github.com/ramjet-rdma/ramjet/verbs/driver"
)

// tlsNetwork is a network whose links speak TLS 1.3 over the links of another network.
//
// crypto/tls does a handshake in one blocking call. So the handshake has a goroutine, and a pipe in
// memory to and from the device. Afterwards the device calls crypto/tls with its lock held, and
// reads never block.
type tlsNetwork struct {
	streamdev.Network
	client, server *tls.Config
	refused        func(peer netip.AddrPort, err error)

	more    map[*tlsLink]struct{} // may have bytes that TCP has no more, and a waiting reader
	waiting atomic.Int32          // number of these
	buffers [][]byte              // free, each of bufferBytes
	stage   []byte                // assembles one record
	take    func(owner any, read, write bool)
	onReady func(owner any, read, write bool)
	found   int

	mu       sync.Mutex
	advanced []*tlsLink // their handshakes made progress
	closed   bool
}

const (
	// recordBytes is the payload of a record (RFC 8446 section 5.1).
	recordBytes = 16 << 10
	// bufferBytes is how much is read from TCP, and encrypted for it, at once.
	bufferBytes = 128 << 10
)

func newTLSNetwork(n streamdev.Network, opt *Options) (streamdev.Network, error) {
	client, server, err := tlsConfigs(opt.TLS)
	if err != nil {
		return nil, err
	}
	t := &tlsNetwork{Network: n, client: client, server: server, refused: opt.Refused,
		more:  make(map[*tlsLink]struct{}),
		stage: make([]byte, 0, recordBytes)}
	t.take = t.happened
	return t, nil
}

// Proposal requests no CRCs: TLS detects every change.
func (n *tlsNetwork) Proposal() rdmap.Proposal {
	w := n.Network.Proposal()
	w.CRC = false
	return w
}

// buffer returns a buffer, which release takes back.
func (n *tlsNetwork) buffer() []byte {
	if last := len(n.buffers) - 1; last >= 0 {
		b := n.buffers[last]
		n.buffers = n.buffers[:last]
		return b
	}
	return make([]byte, bufferBytes)
}

func (n *tlsNetwork) release(b []byte) {
	const keep = 8
	if len(n.buffers) < keep {
		n.buffers = append(n.buffers, b[:bufferBytes])
	}
}

// SetupTime covers handshakes, which take processors that may be busy.
func (n *tlsNetwork) SetupTime() time.Duration { return setupTime }

// Dial begins to connect.
func (n *tlsNetwork) Dial(from, to netip.AddrPort, tos uint8) (streamdev.Link, error) {
	tcp, err := n.Network.Dial(from, to, tos)
	if err != nil {
		return nil, err
	}
	l := n.newLink(tcp, true)
	return l, nil
}

// tlsAcceptor accepts links.
type tlsAcceptor struct {
	streamdev.Acceptor
	net   *tlsNetwork
	owner any
}

// Listen accepts connections.
func (n *tlsNetwork) Listen(at netip.AddrPort, backlog int) (streamdev.Acceptor, error) {
	tcp, err := n.Network.Listen(at, backlog)
	if err != nil {
		return nil, err
	}
	a := &tlsAcceptor{Acceptor: tcp, net: n}
	tcp.Own(a)
	return a, nil
}

func (a *tlsAcceptor) Own(owner any) { a.owner = owner }

func (a *tlsAcceptor) Accept() (streamdev.Link, error) {
	tcp, err := a.Acceptor.Accept()
	if err != nil {
		return nil, err
	}
	return a.net.newLink(tcp, false), nil
}

// Ready reports links that can go on: on TCP, in handshakes, and with bytes that were read before.
func (n *tlsNetwork) Ready(f func(owner any, read, write bool)) int {
	n.onReady, n.found = f, 0
	n.Network.Ready(n.take)
	n.mu.Lock()
	advanced := n.advanced
	n.advanced = nil
	n.mu.Unlock()
	for _, l := range advanced {
		l.handleReady(true, true)
	}
	for l := range n.more {
		n.report(l.owner, l.probe(), false)
	}
	return n.found
}

func (n *tlsNetwork) report(owner any, read, write bool) {
	if owner != nil && (read || write) {
		n.found++
		n.onReady(owner, read, write)
	}
}

func (n *tlsNetwork) happened(owner any, read, write bool) {
	switch o := owner.(type) {
	case *tlsLink:
		o.handleReady(read, write)
	case *tlsAcceptor:
		n.report(o.owner, read, write)
	}
}

// Wait blocks until Ready has something to report.
func (n *tlsNetwork) Wait() error {
	if n.waiting.Load() > 0 {
		return nil
	}
	return n.Network.Wait()
}

// CheckRoute asks the underlying network.
func (n *tlsNetwork) CheckRoute(from, to netip.Addr) error {
	return softdev.CheckRoute(n.Network, from, to)
}

// CanPark reports whether TCP does.
func (n *tlsNetwork) CanPark() bool {
	tcp, ok := n.Network.(softdev.Parker)
	return ok && tcp.CanPark()
}

// Park waits until Ready may have something to report.
func (n *tlsNetwork) Park(d time.Duration) {
	if tcp, ok := n.Network.(softdev.Parker); ok && n.waiting.Load() == 0 {
		tcp.Park(d)
	}
}

// Pollable reports whether threads can sleep by themselves at TCP.
func (n *tlsNetwork) Pollable() bool {
	tcp, ok := n.Network.(softdev.PollWaiter)
	return ok && tcp.Pollable()
}

// BeginWait is Wait up to where it sleeps.
func (n *tlsNetwork) BeginWait(writable bool, at *driver.PollSet) bool {
	return n.waiting.Load() == 0 && n.Network.(softdev.PollWaiter).BeginWait(writable, at)
}

// EndWait ends the wait that BeginWait began.
func (n *tlsNetwork) EndWait(readable bool) {
	n.Network.(softdev.PollWaiter).EndWait(readable)
}

// kick makes Ready check a link whose handshake made progress. Any goroutine may call it.
func (n *tlsNetwork) kick(l *tlsLink) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if !n.closed {
		n.advanced = append(n.advanced, l)
		n.Network.Wake()
	}
}

// Close closes the links that are left.
func (n *tlsNetwork) Close() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.closed = true
	return n.Network.Close()
}
