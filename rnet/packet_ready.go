// SPDX-License-Identifier: Apache-2.0

package rnet

import (
	"net"
	"net/netip"
	"syscall"

	"github.com/ramjet-rdma/ramjet/internal/rsocket"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// Notify is what [Conn.Notify] is.
func (p *PacketConn) Notify(f func()) { p.notify.f.Store(&f) }

// Ready polls, and returns what can be done without waiting. A datagram that turns out to be
// none makes the conn Readable, too.
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
	if len(p.free) == 0 {
		p.reclaim()
	}
	if len(p.early) > 0 || len(p.got) > 0 || p.err != nil {
		r |= Readable
	}
	if len(p.free) > 0 || p.failed != nil || p.err != nil {
		r |= Writable
	}
	if p.err != nil {
		r |= Broken
	}
	return r
}

// Arm is what [Conn.Arm] is.
func (p *PacketConn) Arm() Readiness {
	p.mu.Lock()
	if !p.closed {
		for _, cq := range []*verbs.CQ{p.recvCQ, p.sendCQ} {
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
	if len(p.got) == 0 {
		p.got = p.rwcs[:p.recvCQ.Poll(p.rwcs[:])]
	}
}

// TryReadFrom is ReadFromAddrPort that does not wait: syscall.EAGAIN if there is no
// datagram.
func (p *PacketConn) TryReadFrom(b []byte) (int, netip.AddrPort, error) {
	return p.tryReadFrom(func() (int, netip.AddrPort, bool) { return p.next(b) })
}

// TryPeekFrom is TryReadFrom, but the datagram will be read again.
func (p *PacketConn) TryPeekFrom(b []byte) (int, netip.AddrPort, error) {
	return p.tryReadFrom(func() (int, netip.AddrPort, bool) {
		buf := make([]byte, rsocket.MaxDatagram)
		n, from, ok := p.next(buf)
		if ok {
			p.early = append([]packet{{from, buf[:n]}}, p.early...)
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
	if err := p.usable(&p.read); err != nil {
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

// TryWriteTo is WriteToAddrPort that does not wait: syscall.EAGAIN if too many are on their
// way.
func (p *PacketConn) TryWriteTo(b []byte, to netip.AddrPort) (int, error) {
	p.writeMu.Lock()
	defer p.writeMu.Unlock()
	p.mu.Lock()
	defer p.mu.Unlock()
	to = netip.AddrPortFrom(to.Addr().Unmap(), to.Port())
	if len(p.free) == 0 {
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
