// SPDX-License-Identifier: Apache-2.0

//go:build cabi && linux

package main

// #include <sys/socket.h>
import "C"

import (
	"context"
	"encoding/binary"
	"errors"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"unsafe"

	"github.com/ramjet-rdma/ramjet/cm"
	"github.com/ramjet-rdma/ramjet/rnet"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// rsock is an rsocket. No call on it waits. A call that would have to returns rsWait, and C sleeps
// until the socket is woken, see rs_poll.
type rsock struct {
	family  int
	stream  bool
	numbers int // descriptors that stand for it, under the table's lock

	received atomic.Uint32 // calls that receive, for edges of epoll
	refused  atomic.Uint32 // calls that could not send all

	mu        sync.Mutex
	state     rsState
	announced bool // rconnect has reported the outcome
	flags     int  // of rfcntl
	opt       rsOptions
	err       error // for SO_ERROR
	readShut  bool
	writeShut bool
	local     netip.AddrPort // of a connection
	peer      netip.AddrPort // of a connection; of datagrams: the destination
	conn      *rnet.Conn
	maps      rsMaps

	id     *cmID // to which a stream is bound, or from which its connection came
	listen rsListen
	rsDatagrams
	stop       context.CancelFunc // ends the goroutines
	background sync.WaitGroup

	wakeMu sync.Mutex
	wakers []int // eventfds of sleeping threads
	closed bool
}

// rsListen is the state of a listening socket.
type rsListen struct {
	listeners []*cm.Listener
	ready     []rsAccepted // for raccept
}

// rsAccepted is a connection that waits for raccept.
type rsAccepted struct {
	conn  *rnet.Conn
	dev   *verbs.Device
	opt   rsOptions
	slots chan struct{} // in which it has an element
}

// rsDatagrams is the state of a datagram socket.
type rsDatagrams struct {
	packets  []*rsPackets
	routes   map[netip.Addr]*rsPackets // by the peer's address
	wildcard bool                      // bound to a wildcard
	lastRead int                       // index of the last read one
}

// rsState is the state of a stream.
type rsState uint8

const (
	rsOpen rsState = iota // and perhaps bound
	rsListening
	rsConnecting
	rsConnected
	rsFailed // to connect
	rsClosed
)

// rsWait is RS_WAIT.
const rsWait = -4096

//export rj_rs_socket
func rj_rs_socket(domain, typ, protocol C.int) C.int {
	if domain != syscall.AF_INET && domain != syscall.AF_INET6 {
		return -C.int(syscall.EAFNOSUPPORT)
	}
	var transport C.int
	switch typ &^ (syscall.SOCK_NONBLOCK | syscall.SOCK_CLOEXEC) {
	case syscall.SOCK_STREAM:
		transport = syscall.IPPROTO_TCP
	case syscall.SOCK_DGRAM:
		transport = syscall.IPPROTO_UDP
	default:
		return -C.int(syscall.ENOTSUP)
	}
	if protocol != 0 && protocol != transport {
		return -einval
	}
	fd, s, err := newRsock(int(domain), transport == syscall.IPPROTO_TCP)
	if err != nil {
		return -rsErrno(err)
	}
	if typ&syscall.SOCK_NONBLOCK != 0 {
		s.flags = syscall.O_NONBLOCK
	}
	return C.int(fd)
}

// withRsock calls f with the socket, whose lock is held.
func withRsock(fd C.int, f func(*rsock) error) C.int {
	s := rsocks.get(fd)
	if s == nil {
		return -C.int(syscall.EBADF)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.state == rsClosed {
		return -C.int(syscall.EBADF)
	}
	return -rsErrno(f(s))
}

// errWait is the error that is returned as RS_WAIT.
var errWait = errors.New("wait")

// rsErrno is errno for rsockets.
func rsErrno(err error) C.int {
	var n syscall.Errno
	var reject *cm.RejectError
	switch {
	case err == nil:
		return 0
	case err == errWait:
		return -rsWait
	case errors.As(err, &n):
		return C.int(n)
	case errors.As(err, &reject):
		return C.int(syscall.ECONNREFUSED)
	case errors.Is(err, context.Canceled), errors.Is(err, cm.ErrDisconnected):
		return C.int(syscall.ECONNABORTED)
	case errors.Is(err, context.DeadlineExceeded):
		return C.int(syscall.ETIMEDOUT)
	}
	if e := errno(err); e != einval {
		return e
	}
	return C.int(syscall.EPROTO)
}

// again returns the error of a call that would block. The lock is held.
func (s *rsock) again(flags C.int) error {
	if s.flags&syscall.O_NONBLOCK != 0 || flags&syscall.MSG_DONTWAIT != 0 {
		return syscall.EAGAIN
	}
	return errWait
}

// wake wakes all sleeping threads. It may be called under the locks of a device.
func (s *rsock) wake() {
	s.wakeMu.Lock()
	defer s.wakeMu.Unlock()
	s.wakeAll()
}

func (s *rsock) wakeAll() {
	for _, fd := range s.wakers {
		var one [8]byte
		binary.NativeEndian.PutUint64(one[:], 1)
		syscall.RawSyscall(syscall.SYS_WRITE, uintptr(fd), uintptr(unsafe.Pointer(&one)), 8)
	}
}

func (s *rsock) addWaker(fd int) {
	s.wakeMu.Lock()
	defer s.wakeMu.Unlock()
	if !s.closed && !slices.Contains(s.wakers, fd) {
		s.wakers = append(s.wakers, fd)
	}
}

func (s *rsock) removeWaker(fd int) {
	s.wakeMu.Lock()
	defer s.wakeMu.Unlock()
	if i := slices.Index(s.wakers, fd); i >= 0 {
		s.wakers = slices.Delete(s.wakers, i, i+1)
	}
}

// bury wakes all sleeping threads for the last time.
func (s *rsock) bury() {
	s.wakeMu.Lock()
	defer s.wakeMu.Unlock()
	s.wakeAll()
	s.wakers, s.closed = nil, true
}

//export rj_rs_name
func rj_rs_name(fd, peer C.int, out *C.struct_sockaddr_storage, length *C.socklen_t) C.int {
	return withRsock(fd, func(s *rsock) error {
		at := s.localAddr()
		if peer != 0 {
			if at = s.peer; !at.IsValid() || s.stream && s.state != rsConnected && s.state != rsConnecting {
				return syscall.ENOTCONN
			}
		}
		*length = s.setName(out, at)
		return nil
	})
}

// localAddr returns the socket's address, or 0.0.0.0:0 or [::]:0 if it has none.
func (s *rsock) localAddr() netip.AddrPort {
	none := netip.IPv4Unspecified()
	if s.family == syscall.AF_INET6 {
		none = netip.IPv6Unspecified()
	}
	switch {
	case s.local.IsValid():
		return s.local
	case s.id != nil && len(s.id.ids) > 0:
		at := ofLink(s.id.devices[0].Device, s.id.ids[0].LocalAddr())
		if s.id.several.IsValid() || !at.IsValid() {
			return netip.AddrPortFrom(none, at.Port())
		}
		return at
	case len(s.packets) > 0:
		at := s.packets[0].addr
		if s.wildcard {
			return netip.AddrPortFrom(none, at.Port())
		}
		return at
	}
	return netip.AddrPortFrom(none, 0)
}

// setName fills a socket address of the socket's family.
func (s *rsock) setName(out *C.struct_sockaddr_storage, at netip.AddrPort) C.socklen_t {
	n := C.socklen_t(syscall.SizeofSockaddrInet4)
	if s.family == syscall.AF_INET6 {
		n = syscall.SizeofSockaddrInet6
		if !at.Addr().Is6() {
			at = netip.AddrPortFrom(netip.AddrFrom16(at.Addr().As16()), at.Port())
		}
	}
	setAddr(unsafe.Pointer(out), at)
	return n
}

// address reads an address that a program gave to the socket.
func (s *rsock) address(p *C.struct_sockaddr) (netip.AddrPort, error) {
	at, ok := addrPort(p)
	if !ok || s.family == syscall.AF_INET && p.sa_family != syscall.AF_INET {
		return at, syscall.EAFNOSUPPORT
	}
	return at, nil
}
