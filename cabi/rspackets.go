// SPDX-License-Identifier: Apache-2.0

//go:build cabi && linux

package main

// #include <poll.h>
// #include <sys/socket.h>
// #include <sys/uio.h>
import "C"

import (
	"context"
	"net/netip"
	"syscall"

	"github.com/ramjet-rdma/ramjet/rnet"
)

// rsPackets is the datagrams of a socket on one device.
type rsPackets struct {
	*rnet.PacketConn
	addr   netip.AddrPort
	device string // C's name
}

// bindPackets binds a datagram socket. A wildcard stands for the addresses of all devices of the
// family.
func (s *rsock) bindPackets(at netip.AddrPort) error {
	s.wildcard = at.Addr().IsUnspecified()
	var failed error = syscall.EADDRNOTAVAIL
	for _, d := range listedDevices() {
		addr, ok := addrOf(d)
		if !ok || addr != at.Addr().WithZone("") && !(s.wildcard && standsFor(at.Addr(), addr, s.opt.only6)) {
			continue
		}
		p, err := s.openPackets(d.Name, netip.AddrPortFrom(addr, at.Port()))
		if err != nil {
			failed = err // others may have the address
			continue
		}
		at = netip.AddrPortFrom(at.Addr(), p.addr.Port())
	}
	if len(s.packets) == 0 {
		return failed
	}
	return nil
}

func (s *rsock) openPackets(name string, at netip.AddrPort) (*rsPackets, error) {
	d, err := acquire(name)
	if err != nil {
		return nil, err
	}
	d.keep()
	defer d.release()
	o := s.opt.fit(d.Device)
	opt := rnet.Options{SendQueue: o.SendQueue, RecvQueue: o.RecvQueue, LockedThread: o.LockedThread}
	conn, err := (&rnet.ListenConfig{Device: d.Device, Options: opt}).ListenPacket(context.Background(), at.String())
	if err != nil {
		return nil, err
	}
	conn.Notify(s.wake)
	bound, err := netip.ParseAddrPort(conn.LocalAddr().String())
	if err != nil {
		conn.Close()
		return nil, err
	}
	p := &rsPackets{conn, bound, name}
	s.packets = append(s.packets, p)
	return p, nil
}

// bound makes sure that the socket has an address.
func (s *rsock) bound() error {
	if len(s.packets) > 0 {
		return nil
	}
	return s.bindPackets(s.localAddr())
}

func (s *rsock) connectPackets(addr *C.struct_sockaddr) error {
	if addr.sa_family == syscall.AF_UNSPEC {
		s.peer = netip.AddrPort{}
		return nil
	}
	to, err := s.address(addr)
	if err == nil {
		err = s.bound()
	}
	if err == nil {
		_, err = s.through(to)
	}
	if err == nil {
		s.peer = to
	}
	return err
}

// through finds the device on the route to an address.
func (s *rsock) through(to netip.AddrPort) (*rsPackets, error) {
	if len(s.packets) == 1 {
		return s.packets[0], nil
	}
	if p := s.routes[to.Addr()]; p != nil {
		return p, nil
	}
	name, err := deviceTo(to.Addr())
	if err != nil {
		return nil, syscall.ENETUNREACH
	}
	for _, p := range s.packets {
		if p.device == name {
			if s.routes == nil || len(s.routes) >= 1024 {
				s.routes = map[netip.Addr]*rsPackets{}
			}
			s.routes[to.Addr()] = p
			return p, nil
		}
	}
	return nil, syscall.ENETUNREACH
}

// recvPacket receives a datagram. The lock is held.
func (s *rsock) recvPacket(iov *C.struct_iovec, n, flags C.int, from *C.struct_sockaddr_storage,
	length *C.socklen_t) (int, error) {
	if s.readShut {
		return 0, nil
	}
	if err := s.bound(); err != nil {
		return 0, err
	}
	var buf []byte
	one := func(b []byte) (int, error) { buf = b; return 0, nil }
	if n != 1 {
		buf = make([]byte, size(iov, n))
	} else if _, err := pieces(iov, 1, 0, one); err != nil { // directly into its place
		return 0, err
	}
	for range s.packets {
		s.lastRead++
		p := s.packets[s.lastRead%len(s.packets)]
		read := p.TryReadFrom
		if flags&syscall.MSG_PEEK != 0 {
			read = p.TryPeekFrom
		}
		got, at, err := read(buf)
		if err == syscall.EAGAIN {
			continue
		}
		if err != nil {
			return 0, err
		}
		if n != 1 {
			left := buf[:got]
			if _, err := pieces(iov, n, 0, func(b []byte) (int, error) {
				k := copy(b, left)
				left = left[k:]
				return k, nil
			}); err != nil && len(left) > 0 {
				return 0, err
			}
		}
		if from != nil {
			*length = s.setName(from, at)
		}
		return got, nil
	}
	return 0, s.again(flags)
}

// sendPacket sends a datagram.
func (s *rsock) sendPacket(iov *C.struct_iovec, n, flags C.int, addr *C.struct_sockaddr) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	to := s.peer
	if addr != nil {
		var err error
		if to, err = s.address(addr); err != nil {
			return 0, err
		}
	}
	switch {
	case s.state == rsClosed:
		return 0, syscall.EBADF
	case s.writeShut:
		return 0, syscall.EPIPE
	case !to.IsValid():
		return 0, syscall.EDESTADDRREQ
	}
	if err := s.bound(); err != nil {
		return 0, err
	}
	p, err := s.through(to)
	if err != nil {
		return 0, err
	}
	var data []byte
	if _, err := pieces(iov, n, 0, func(b []byte) (int, error) {
		if n == 1 {
			data = b
		} else {
			data = append(data, b...)
		}
		return len(b), nil
	}); err != nil {
		return 0, err
	}
	sent, err := p.TryWriteTo(data, to)
	if err == syscall.EAGAIN {
		s.refused.Add(1)
		err = s.again(flags)
	}
	return sent, err
}

func (s *rsock) pollPackets(arm bool) (got int) {
	if s.readShut {
		got |= pollIn
	}
	if len(s.packets) == 0 {
		return got | pollOut
	}
	for _, p := range s.packets {
		can := p.Ready
		if arm {
			can = p.Arm
		}
		r := can()
		if r&rnet.Readable != 0 {
			got |= pollIn
		}
		if r&rnet.Writable != 0 {
			got |= pollOut
		}
		if r&rnet.Broken != 0 {
			got |= C.POLLERR
		}
	}
	return got
}
