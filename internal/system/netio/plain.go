// SPDX-License-Identifier: Apache-2.0

package netio

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"sync"
	"time"

	"github.com/ramjet-rdma/ramjet/internal/system/forkmark"
	"github.com/ramjet-rdma/ramjet/internal/system/pollwait"
)

// plainSlots is how many datagrams the plain socket holds for Recv; more wait in the system's
// buffer.
const plainSlots = 64

// plain is a socket of package net. A goroutine reads each connection into a bounded ring, from
// which recv takes. Sends go one by one and block while the system's buffer is full.
//
// Ring positions count up and are taken modulo plainSlots:
//
//	freed ≤ taken ≤ filled ≤ freed + plainSlots
//
// Datagrams between freed and taken were returned by the last recv, datagrams between taken and
// filled are for the next one.
type plain struct {
	local netip.AddrPort
	conn  *net.UDPConn
	dual  bool // it takes IPv4 addresses too, though local is IPv6
	feats Features

	mu       sync.Mutex
	changed  sync.Cond // there is room, or the socket was closed
	ring     [plainSlots]Datagrams
	freed    int
	taken    int
	filled   int
	waiting  bool
	woken    bool
	closed   bool
	failure  error // a reader's, for the next recv
	deadline time.Time
	groups   map[netip.Addr]*net.UDPConn
	signal   chan struct{} // of capacity 1: check again
	timer    *time.Timer   // the wait's
	readers  sync.WaitGroup

	sending sync.Mutex
	out     [MaxPayload]byte
	pieces  []piece
	routed  bool // outgoing multicast has its interface
}

// listenPlain opens the socket and starts its reader.
func listenPlain(local netip.AddrPort, o Options) (transport, netip.AddrPort, error) {
	network := "udp4"
	dual := o.DualStack && local.Addr() == netip.IPv6Unspecified()
	switch {
	case dual:
		network = "udp"
	case local.Addr().Is6():
		network = "udp6"
	}
	conn, err := net.ListenUDP(network, net.UDPAddrFromAddrPort(local))
	if err != nil {
		return nil, netip.AddrPort{}, err
	}
	forkmark.SetConn(conn)
	p := &plain{
		conn:   conn,
		dual:   dual,
		feats:  Features{MaxSegments: defaultSegments, Batch: plainSlots},
		signal: make(chan struct{}, 1),
		timer:  time.NewTimer(time.Hour),
		groups: make(map[netip.Addr]*net.UDPConn),
	}
	p.timer.Stop()
	p.changed.L = &p.mu
	p.local = netip.AddrPortFrom(local.Addr(), conn.LocalAddr().(*net.UDPAddr).AddrPort().Port())
	if !o.Fragments {
		if err := dontFragment(conn, local.Addr().Is6()); err != nil {
			conn.Close()
			return nil, netip.AddrPort{}, err
		}
	}
	p.feats.RecvBuffer = grow(conn.SetReadBuffer, o.RecvBuffer)
	p.feats.SendBuffer = grow(conn.SetWriteBuffer, o.SendBuffer)
	to := netip.Addr{}
	if !local.Addr().IsUnspecified() {
		to = local.Addr()
	}
	p.readers.Add(1)
	go p.read(conn, to)
	return p, p.local, nil
}

// grow requests a buffer of n bytes, and less if the system refuses instead of granting less. It
// returns the granted size, 0 for the system's default.
func grow(set func(int) error, n int) int {
	for ; n >= 4096; n /= 2 {
		if set(n) == nil {
			return n
		}
	}
	return 0
}

func (p *plain) features() Features { return p.feats }

// read moves datagrams from a connection to the ring until the connection is closed.
func (p *plain) read(conn *net.UDPConn, to netip.Addr) {
	defer p.readers.Done()
	buffer := make([]byte, MaxPayload+1)
	for {
		n, from, err := conn.ReadFromUDPAddrPort(buffer)
		if errors.Is(err, net.ErrClosed) {
			return
		}
		p.mu.Lock()
		for err == nil && p.filled-p.freed == plainSlots && !p.closed {
			p.changed.Wait()
		}
		switch {
		case p.closed:
			p.mu.Unlock()
			return
		case err != nil:
			p.failure = fmt.Errorf("netio: receive: %w", err)
		default:
			d := &p.ring[p.filled%plainSlots]
			d.Data = append(d.Data[:0], buffer[:n]...)
			d.From = netip.AddrPortFrom(from.Addr().Unmap(), from.Port())
			d.To = to
			d.SegmentSize = n
			p.filled++
		}
		waiting := p.waiting
		p.mu.Unlock()
		if waiting {
			p.notify()
		}
		if err != nil {
			time.Sleep(time.Millisecond) // a persistent error must not take a core
		}
	}
}

// notify makes a wait check again.
func (p *plain) notify() {
	select {
	case p.signal <- struct{}{}:
	default:
	}
}

func (p *plain) recv(into []Datagrams) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return 0, net.ErrClosed
	}
	if p.freed != p.taken {
		p.freed = p.taken
		p.changed.Broadcast()
	}
	if err := p.failure; err != nil {
		p.failure = nil
		return 0, err
	}
	n := min(len(into), p.filled-p.taken)
	for i := range n {
		into[i] = p.ring[(p.taken+i)%plainSlots]
		into[i].Data = into[i].Data[:len(into[i].Data):len(into[i].Data)]
	}
	p.taken += n
	return n, nil
}

// wait returns at once if writable is set: sends block, so they never end in ErrAgain.
func (p *plain) wait(writable bool) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	defer p.timer.Stop()
	for {
		switch {
		case p.closed:
			return net.ErrClosed
		case p.woken:
			p.woken = false
			return nil
		case writable || p.filled != p.taken || p.failure != nil:
			return nil
		}
		var expired <-chan time.Time
		if !p.deadline.IsZero() {
			left := time.Until(p.deadline)
			if left <= 0 {
				return nil
			}
			p.timer.Reset(left)
			expired = p.timer.C
		}
		p.waiting = true
		p.mu.Unlock()
		select {
		case <-p.signal:
		case <-expired:
		}
		p.mu.Lock()
		p.waiting = false
	}
}

func (*plain) unsent() int { return 0 }

func (p *plain) park(time.Duration) {}
func (p *plain) canPark() bool      { return false }

func (p *plain) beginWait(bool, *pollwait.Set) bool { return false }
func (p *plain) endWait(bool)                       {}

func (p *plain) setDeadline(t time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.deadline = t
	if p.waiting {
		p.notify()
	}
}

func (p *plain) wake() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.woken = true
	if p.waiting {
		p.notify()
	}
}

func (p *plain) send(t *Train) error {
	if t.count == 0 {
		return nil
	}
	if err := t.check(); err != nil {
		return err
	}
	if t.to.Addr().Is4() != p.local.Addr().Is4() && !p.dual {
		return errFamily
	}
	p.sending.Lock()
	defer p.sending.Unlock()
	if t.to.Addr().IsMulticast() && !p.routed {
		ifi, err := interfaceOf(p.local.Addr())
		if err != nil {
			return err
		}
		if err := multicastThrough(p.conn, p.local.Addr().Is6(), ifi); err != nil {
			return fmt.Errorf("netio: send to a group: %w", err)
		}
		p.routed = true
	}
	for t.sent < t.count {
		var n int
		n, p.pieces = t.copySegment(t.sent, p.out[:], p.pieces)
		if _, err := p.conn.WriteToUDPAddrPort(p.out[:n], t.to); err != nil {
			return fmt.Errorf("netio: send: %w", err)
		}
		t.sent++
	}
	t.sent = 0
	clear(p.pieces)
	return nil
}

// recvHeaders is unsupported: package net does not show headers.
func (p *plain) recvHeaders(on bool) error {
	if on {
		return fmt.Errorf("netio: receive headers: %w on a plain socket", errors.ErrUnsupported)
	}
	return nil
}

func (p *plain) recvTOS() error {
	return fmt.Errorf("netio: receive TOS: %w on a plain socket", errors.ErrUnsupported)
}

// free has nothing to do: package net counts the calls that are pending.
func (p *plain) free() {}

func (p *plain) joinGroup(group netip.Addr) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return net.ErrClosed
	}
	if p.groups[group] != nil {
		return nil
	}
	if group.Is4() != p.local.Addr().Is4() {
		return errFamily
	}
	ifi, err := interfaceOf(p.local.Addr())
	if err != nil {
		return err
	}
	if err := multicastRoute(group, ifi); err != nil {
		return err
	}
	conn, err := listenGroup(netip.AddrPortFrom(group, p.local.Port()), ifi)
	if err != nil {
		return err
	}
	grow(conn.SetReadBuffer, p.feats.RecvBuffer)
	p.groups[group] = conn
	p.readers.Add(1)
	go p.read(conn, group)
	return nil
}

func (p *plain) leaveGroup(group netip.Addr) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return net.ErrClosed
	}
	if conn := p.groups[group]; conn != nil {
		delete(p.groups, group)
		return conn.Close()
	}
	return nil
}

func (p *plain) close() error {
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		return nil
	}
	p.closed = true
	for _, conn := range p.groups {
		conn.Close()
	}
	err := p.conn.Close()
	p.changed.Broadcast()
	p.notify()
	p.mu.Unlock()
	p.readers.Wait()
	if errors.Is(err, os.ErrClosed) {
		return nil
	}
	return err
}
