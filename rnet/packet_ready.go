// SPDX-License-Identifier: Apache-2.0

package rnet

import (
	"net"
	"net/netip"
	"syscall"

	"github.com/ramjet-rdma/ramjet/internal/engine/rsocket"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// Notify is like [Conn.Notify].
func (p *PacketConn) Notify(f func()) { p.notify.f.Store(&f) }

// Ready polls, and returns the operations that need not wait. A malformed datagram makes the conn
// Readable too.
func (p *PacketConn) Ready() (r Readiness) {
	p.readMu.Lock()
	defer p.readMu.Unlock()
	p.writeMu.Lock()
	defer p.writeMu.Unlock()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return Readable | Writable
	}
	p.receive()
	if len(p.write.free) == 0 {
		p.reclaim()
	}
	if len(p.read.early) > 0 || len(p.read.got) > 0 || p.err != nil {
		r |= Readable
	}
	if len(p.write.free) > 0 || p.write.failed != nil || p.err != nil {
		r |= Writable
	}
	if p.err != nil {
		r |= Broken
	}
	return r
}

// Arm is like [Conn.Arm].
func (p *PacketConn) Arm() Readiness {
	p.mu.Lock()
	if !p.closed {
		for _, cq := range []*verbs.CQ{p.read.cq, p.write.cq} {
			if err := cq.ReqNotify(false); err != nil {
				p.fail(err)
			}
		}
	}
	p.mu.Unlock()
	return p.Ready()
}

// receive polls for datagrams if none are left. readMu and mu are held.
func (p *PacketConn) receive() {
	if len(p.read.got) == 0 {
		p.read.got = p.read.wcs[:p.read.cq.Poll(p.read.wcs[:])]
	}
}

// TryReadFrom is a non-blocking ReadFromAddrPort: syscall.EAGAIN if there is no datagram.
func (p *PacketConn) TryReadFrom(b []byte) (int, netip.AddrPort, error) {
	return p.tryReadFrom(func() (int, netip.AddrPort, bool) { return p.next(b) })
}

// TryPeekFrom is TryReadFrom, but the datagram will be read again.
func (p *PacketConn) TryPeekFrom(b []byte) (int, netip.AddrPort, error) {
	return p.tryReadFrom(func() (int, netip.AddrPort, bool) {
		buf := make([]byte, rsocket.MaxDatagram)
		n, from, ok := p.next(buf)
		if ok {
			p.read.early = append([]packet{{from, buf[:n]}}, p.read.early...)
			n = copy(b, buf[:n])
		}
		return n, from, ok
	})
}

func (p *PacketConn) tryReadFrom(next func() (int, netip.AddrPort, bool)) (int, netip.AddrPort, error) {
	p.readMu.Lock()
	defer p.readMu.Unlock()
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.usable(&p.read.side); err != nil {
		return 0, netip.AddrPort{}, p.opError("read", nil, err)
	}
	n, from, ok := next()
	if !ok {
		p.receive()
		n, from, ok = next()
	}
	switch {
	case ok:
		return n, from, nil
	case p.err != nil:
		return 0, netip.AddrPort{}, p.opError("read", nil, p.err)
	}
	return 0, netip.AddrPort{}, syscall.EAGAIN
}

// TryWriteTo is a non-blocking WriteToAddrPort: syscall.EAGAIN if too many are in flight.
func (p *PacketConn) TryWriteTo(b []byte, to netip.AddrPort) (int, error) {
	p.writeMu.Lock()
	defer p.writeMu.Unlock()
	p.mu.Lock()
	defer p.mu.Unlock()
	to = netip.AddrPortFrom(to.Addr().Unmap(), to.Port())
	if len(p.write.free) == 0 {
		p.reclaim()
	}
	err := p.writeErr(len(b))
	var sent bool
	if err == nil {
		sent, err = p.sendNow(b, to)
	}
	switch {
	case err != nil:
		return 0, p.opError("write", net.UDPAddrFromAddrPort(to), err)
	case !sent:
		return 0, syscall.EAGAIN
	}
	return len(b), nil
}
