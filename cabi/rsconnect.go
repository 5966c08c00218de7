// SPDX-License-Identifier: Apache-2.0

//go:build cabi && linux

package main

// #include <sys/socket.h>
import "C"

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/ramjet-rdma/ramjet/cm"
	"github.com/ramjet-rdma/ramjet/rnet"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// Limits of setting up a connection.
const (
	rsConnectTimeout = 2 * time.Minute
	rsAcceptTimeout  = 30 * time.Second
)

// rsAcceptMaps is the least number of buffers for which a connection that was accepted has room. Programs such as
// riostream set RDMA_IOMAPSIZE after rlisten, when their first peer may have been accepted already: without room its
// riomap would fail.
const rsAcceptMaps = 4

// rsDevices stay open as long as the process: the peers of a socket may still send requests after
// it was closed.
var rsDevices = struct {
	sync.Mutex
	m map[*device]bool
}{m: map[*device]bool{}}

func (d *device) keep() {
	rsDevices.Lock()
	defer rsDevices.Unlock()
	if !rsDevices.m[d] {
		rsDevices.m[d] = true
		devicesMu.Lock()
		d.users++
		devicesMu.Unlock()
	}
}

// newID creates the id that a stream is bound with.
func (s *rsock) newID() *cmID {
	id := &cmID{ps: cm.TCP, channel: &cmChannel{EventChannel: cm.NewEventChannel()}, only6: s.opt.only6}
	if s.opt.reuse {
		id.setup = append(id.setup, func(one *cm.ID) error { return one.SetReuseAddr(true) })
	}
	return id
}

//export rj_rs_bind
func rj_rs_bind(fd C.int, addr *C.struct_sockaddr) C.int {
	return withRsock(fd, func(s *rsock) error {
		at, err := s.address(addr)
		if err != nil {
			return err
		}
		if s.state != rsOpen || s.id != nil || len(s.packets) > 0 {
			return syscall.EINVAL
		}
		return s.bind(at)
	})
}

func (s *rsock) bind(at netip.AddrPort) error {
	if !s.stream {
		return s.bindPackets(at)
	}
	id := s.newID()
	err := id.bind(at)
	for _, d := range id.devices {
		d.keep()
	}
	if err != nil {
		id.forget()
		return noSuchAddr(err)
	}
	s.id = id
	return nil
}

// noSuchAddr converts the error for an address of no device to that of sockets.
func noSuchAddr(err error) error {
	if errors.Is(err, syscall.ENODEV) {
		return syscall.EADDRNOTAVAIL
	}
	return err
}

//export rj_rs_listen
func rj_rs_listen(fd, backlog C.int) C.int {
	return withRsock(fd, func(s *rsock) error {
		if !s.stream {
			return syscall.EOPNOTSUPP
		}
		if s.state == rsListening {
			return nil
		}
		if s.state != rsOpen {
			return syscall.EINVAL
		}
		if s.id == nil {
			if err := s.bind(s.localAddr()); err != nil {
				return err
			}
		}
		for _, one := range s.id.ids {
			l, err := cm.ListenID(one, cm.WithBacklog(int(backlog)))
			if err != nil {
				s.stopListening()
				s.unbind()
				return err
			}
			s.listen.listeners = append(s.listen.listeners, l)
		}
		s.state = rsListening
		var ctx context.Context
		ctx, s.stop = context.WithCancel(context.Background())
		slots := make(chan struct{}, max(int(backlog), rnet.DefaultBacklog))
		for _, l := range s.listen.listeners {
			s.background.Go(func() { s.requests(ctx, l, slots) })
		}
		return nil
	})
}

// requests accepts a listener's requests, so that peers do not wait for raccept. slots has an element for each
// connection that is being established, or waits for raccept.
func (s *rsock) requests(ctx context.Context, l *cm.Listener, slots chan struct{}) {
	for {
		select {
		case slots <- struct{}{}:
		case <-ctx.Done():
			return
		}
		req, err := l.Next(ctx)
		if err != nil {
			return
		}
		s.background.Go(func() { s.accept(ctx, req, slots) })
	}
}

// accept accepts a request, and queues the connection for raccept.
func (s *rsock) accept(ctx context.Context, req *cm.Request, slots chan struct{}) {
	ctx, cancel := context.WithTimeout(ctx, rsAcceptTimeout)
	defer cancel()
	dev := req.ID().Device()
	s.mu.Lock()
	opt := s.opt
	s.mu.Unlock()
	fitted := opt.fit(dev)
	fitted.IOMaps = max(fitted.IOMaps, rsAcceptMaps)
	conn, err := rnet.AcceptRequest(ctx, req, &fitted)
	if err != nil {
		<-slots // the peer was rejected, or went away
		return
	}
	s.mu.Lock()
	listens := s.state == rsListening
	if listens {
		s.listen.ready = append(s.listen.ready, rsAccepted{conn, dev, opt, slots})
	}
	s.mu.Unlock()
	if !listens {
		conn.Close()
		return
	}
	s.wake()
}

// stopListening returns the connections that were not accepted. The lock is held.
func (s *rsock) stopListening() []rsAccepted {
	for _, l := range s.listen.listeners {
		l.Close()
	}
	left := s.listen.ready
	s.listen = rsListen{}
	return left
}

// rj_rs_accept returns a connection that is established.
//
//export rj_rs_accept
func rj_rs_accept(fd C.int) C.int {
	var number int
	r := withRsock(fd, func(s *rsock) error {
		if !s.stream {
			return syscall.EOPNOTSUPP
		}
		if s.state != rsListening {
			return syscall.EINVAL
		}
		if len(s.listen.ready) == 0 {
			return s.again(0)
		}
		s.received.Add(1)
		fd, made, err := newRsock(s.family, true)
		if err != nil {
			return err
		}
		number = fd
		a := s.listen.ready[0]
		s.listen.ready = slices.Delete(s.listen.ready, 0, 1)
		<-a.slots
		made.mu.Lock()
		defer made.mu.Unlock()
		made.opt, made.announced = a.opt, true
		made.connected(a.dev, a.conn)
		return nil
	})
	if r != 0 {
		return r
	}
	return C.int(number)
}

// connected gives the socket its connection. The lock is held.
func (s *rsock) connected(dev *verbs.Device, c *rnet.Conn) {
	s.state, s.conn = rsConnected, c
	s.local = ofLink(dev, c.LocalAddr().(*net.TCPAddr).AddrPort())
	s.peer = ofLink(dev, c.RemoteAddr().(*net.TCPAddr).AddrPort())
	c.Notify(s.wake)
}

// connecting runs the attempt to connect. The lock is held.
func (s *rsock) connecting(dev *verbs.Device, f func(context.Context) (*rnet.Conn, error)) {
	var ctx context.Context
	ctx, s.stop = context.WithTimeout(context.Background(), rsConnectTimeout)
	stop := s.stop
	s.state = rsConnecting
	s.background.Go(func() {
		defer stop()
		c, err := f(ctx)
		s.mu.Lock()
		switch {
		case s.state != rsConnecting: // closed meanwhile
			if err == nil {
				defer c.Close()
			}
		case err != nil:
			s.state, s.err = rsFailed, err
		default:
			s.connected(dev, c)
		}
		s.mu.Unlock()
		s.wake()
	})
}

// rj_rs_connect starts to connect, or returns the outcome.
//
//export rj_rs_connect
func rj_rs_connect(fd C.int, addr *C.struct_sockaddr) C.int {
	return withRsock(fd, func(s *rsock) error {
		if !s.stream {
			return s.connectPackets(addr)
		}
		switch s.state {
		case rsListening:
			return syscall.EINVAL
		case rsConnecting:
			if err := s.again(0); err == errWait {
				return err
			}
			return syscall.EALREADY
		case rsConnected:
			if s.announced {
				return syscall.EISCONN
			}
			s.announced = true
			return nil
		case rsFailed:
			if err := s.err; err != nil {
				s.err = nil
				return err
			}
			s.unbind() // retry
		}
		to, err := s.address(addr)
		if err != nil {
			return err
		}
		if to.Addr().IsUnspecified() { // this host, as with TCP
			to = netip.AddrPortFrom(loopbackLike(to.Addr()), to.Port())
		}
		if err := s.connect(to); err != nil {
			return err
		}
		if err := s.again(0); err == errWait {
			return err
		}
		return syscall.EINPROGRESS
	})
}

func loopbackLike(a netip.Addr) netip.Addr {
	if a.Is4() {
		return netip.AddrFrom4([4]byte{127, 0, 0, 1})
	}
	return netip.IPv6Loopback()
}

func (s *rsock) connect(to netip.AddrPort) error {
	if s.id == nil {
		s.id = s.newID()
	}
	if len(s.id.ids) == 0 || s.id.several.IsValid() {
		if err := s.id.route(netip.AddrPort{}, to); err != nil {
			s.unbind()
			if errors.Is(err, syscall.ENODEV) {
				return syscall.ENETUNREACH
			}
			return err
		}
		s.id.devices[0].keep()
	}
	dev := s.id.devices[0].Device
	s.peer, s.announced = ofLink(dev, to), false
	one, opt := s.id.ids[0], s.opt.fit(dev)
	s.connecting(dev, func(ctx context.Context) (*rnet.Conn, error) {
		return rnet.DialID(ctx, one, to, &opt)
	})
	return nil
}

// unbind releases the address of the socket.
func (s *rsock) unbind() {
	if s.id != nil {
		s.id.forget()
	}
	s.id, s.state, s.local, s.peer = nil, rsOpen, netip.AddrPort{}, netip.AddrPort{}
}

//export rj_rs_shutdown
func rj_rs_shutdown(fd, how C.int) C.int {
	var conn *rnet.Conn
	var read, write bool
	if r := withRsock(fd, func(s *rsock) error {
		if how != syscall.SHUT_RD && how != syscall.SHUT_WR && how != syscall.SHUT_RDWR {
			return syscall.EINVAL
		}
		if s.stream && s.state != rsConnected || !s.stream && !s.peer.IsValid() {
			return syscall.ENOTCONN
		}
		s.readShut = s.readShut || how != syscall.SHUT_WR
		s.writeShut = s.writeShut || how != syscall.SHUT_RD
		conn, read, write = s.conn, s.readShut, s.writeShut
		return nil
	}); r != 0 {
		return r
	}
	switch {
	case conn == nil:
	case read && write:
		conn.Disconnect() // if it fails, the peer does not need it any more
	case write:
		conn.CloseWrite()
	}
	if s := rsocks.get(fd); s != nil {
		s.wake()
	}
	return 0
}

//export rj_rs_close
func rj_rs_close(fd, keep C.int) C.int {
	s, last := rsocks.drop(int(fd))
	if s == nil {
		return -C.int(syscall.EBADF)
	}
	if last {
		s.end()
	}
	if keep == 0 {
		syscall.Close(int(fd))
	}
	return 0
}

// end ends a socket that has no number any more.
func (s *rsock) end() {
	s.mu.Lock()
	s.state = rsClosed
	if s.stop != nil {
		s.stop()
	}
	conn, packets := s.conn, s.packets
	left := s.stopListening()
	s.mu.Unlock()
	s.bury()
	s.background.Wait()
	if conn != nil {
		conn.Close()
	}
	for _, a := range left {
		a.conn.Close()
	}
	if s.id != nil {
		s.id.forget()
	}
	for _, p := range packets {
		p.Close()
	}
}

// rsExitTimeout limits how long closing open sockets takes at exit.
const rsExitTimeout = 2 * time.Second

// rj_rs_exit closes all sockets.
//
//export rj_rs_exit
func rj_rs_exit() {
	slots := rsocks.slots.Load()
	if slots == nil {
		return
	}
	var all sync.WaitGroup
	for i := range *slots {
		if s, last := rsocks.drop(i); last {
			all.Go(s.end)
		}
	}
	done := make(chan struct{})
	go func() { all.Wait(); close(done) }()
	select {
	case <-done:
	case <-time.After(rsExitTimeout):
	}
}
