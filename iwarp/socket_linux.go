// SPDX-License-Identifier: Apache-2.0

package iwarp

import (
	"fmt"
	"io"
	"net/netip"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/ramjet-rdma/ramjet/internal/core/softdev"
	"github.com/ramjet-rdma/ramjet/internal/core/streamdev"
	"github.com/ramjet-rdma/ramjet/internal/system/forkmark"
)

// maxPieces is how many pieces one system call takes (the limit, UIO_MAXIOV, is 1024).
const maxPieces = 512

// A peer that is silent for keepAliveInterval seconds is probed, and is given up after keepAliveTimeout. The
// system probes only while nothing is unacknowledged. Silent covers the rest, because
// TCP_USER_TIMEOUT would also end connections whose peer announces a zero window.
const (
	keepAliveInterval = 5
	keepAliveTimeout  = 30
)

// unwatched makes epoll report a broken socket once, and not again until it is watched: otherwise
// it would end each Wait.
const unwatched = unix.EPOLLONESHOT

// link is a TCP connection.
type link struct {
	net      *network
	fd       int
	events   uint32
	from, to netip.AddrPort
	iov      []unix.Iovec
	msg      unix.Msghdr
}

func (n *network) sockaddr(a netip.AddrPort) (int, unix.Sockaddr) {
	if a.Addr().Is4() {
		return unix.AF_INET, &unix.SockaddrInet4{Port: int(a.Port()), Addr: a.Addr().As4()}
	}
	sa := &unix.SockaddrInet6{Port: int(a.Port()), Addr: a.Addr().As16()}
	if a.Addr().IsLinkLocalUnicast() {
		sa.ZoneId = uint32(n.index) // as onLink does
	}
	return unix.AF_INET6, sa
}

func addrPort(sa unix.Sockaddr) netip.AddrPort {
	switch s := sa.(type) {
	case *unix.SockaddrInet4:
		return netip.AddrPortFrom(netip.AddrFrom4(s.Addr), uint16(s.Port))
	case *unix.SockaddrInet6:
		return netip.AddrPortFrom(netip.AddrFrom16(s.Addr).Unmap(), uint16(s.Port))
	}
	return netip.AddrPort{}
}

// socket creates a socket that is bound to an address.
func (n *network) socket(at netip.AddrPort) (int, error) {
	family, sa := n.sockaddr(at)
	fd, err := unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, unix.IPPROTO_TCP)
	if err != nil {
		return -1, os.NewSyscallError("socket", err)
	}
	if err = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1); err == nil {
		err = unix.Bind(fd, sa)
	}
	if err == nil && n.opt.Congestion != "" {
		if err = unix.SetsockoptString(fd, unix.IPPROTO_TCP, unix.TCP_CONGESTION, n.opt.Congestion); err != nil {
			err = fmt.Errorf("congestion control %q: %w", n.opt.Congestion, err)
		}
	}
	if err != nil {
		unix.Close(fd)
		return -1, fmt.Errorf("binding to %v: %w", at, err)
	}
	return fd, nil
}

// newLink makes a link of a connected or connecting socket.
func (n *network) newLink(fd int, to netip.AddrPort) (*link, error) {
	forkmark.Set(fd)
	for _, o := range [...]struct{ level, name, value int }{
		{unix.IPPROTO_TCP, unix.TCP_NODELAY, 1},
		{unix.IPPROTO_TCP, unix.TCP_KEEPIDLE, keepAliveInterval},
		{unix.IPPROTO_TCP, unix.TCP_KEEPINTVL, keepAliveInterval},
		{unix.IPPROTO_TCP, unix.TCP_KEEPCNT, keepAliveTimeout/keepAliveInterval - 1},
		{unix.SOL_SOCKET, unix.SO_KEEPALIVE, 1},
	} {
		if err := unix.SetsockoptInt(fd, o.level, o.name, o.value); err != nil {
			unix.Close(fd)
			return nil, os.NewSyscallError("setsockopt", err)
		}
	}
	l := &link{net: n, fd: fd, events: unwatched, to: to}
	if sa, err := unix.Getsockname(fd); err == nil {
		l.from = addrPort(sa)
	}
	if err := n.control(unix.EPOLL_CTL_ADD, fd, unwatched); err != nil {
		unix.Close(fd)
		return nil, os.NewSyscallError("epoll_ctl", err)
	}
	return l, nil
}

// Dial begins to connect.
func (n *network) Dial(from, to netip.AddrPort, tos uint8) (streamdev.Link, error) {
	fd, err := n.socket(from)
	if err != nil {
		return nil, err
	}
	if tos != 0 {
		if to.Addr().Is4() {
			unix.SetsockoptInt(fd, unix.IPPROTO_IP, unix.IP_TOS, int(tos)) // best effort
		} else {
			unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_TCLASS, int(tos))
		}
	}
	_, sa := n.sockaddr(to)
	if err := unix.Connect(fd, sa); err != nil && err != unix.EINPROGRESS {
		unix.Close(fd)
		return nil, fmt.Errorf("connecting to %v: %w", to, err)
	}
	l, err := n.newLink(fd, to)
	if err != nil {
		return nil, err
	}
	return l, nil
}

func (l *link) Own(owner any) { l.net.owners[int32(l.fd)] = owner }

func (l *link) Watch(read, write bool) {
	var events uint32
	if read {
		events = unix.EPOLLIN
	}
	if write {
		events |= unix.EPOLLOUT
	}
	if events == 0 {
		events = unwatched
	}
	if events != l.events {
		l.events = events
		l.net.control(unix.EPOLL_CTL_MOD, l.fd, events) // cannot fail: the socket is in the instance
	}
}

func (l *link) Connected() error {
	if errno, err := unix.GetsockoptInt(l.fd, unix.SOL_SOCKET, unix.SO_ERROR); err != nil || errno != 0 {
		if err == nil {
			err = unix.Errno(errno)
		}
		return fmt.Errorf("connecting to %v: %w", l.to, err)
	}
	if _, err := unix.Getpeername(l.fd); err != nil {
		return softdev.ErrAgain
	}
	return nil
}

// Starting returns false: TCP needs nothing else.
func (l *link) Starting() bool { return false }

// vector returns the header of a system call that takes pieces.
func (l *link) vector(pieces [][]byte) *unix.Msghdr {
	l.iov = l.iov[:0]
	for _, p := range pieces[:min(len(pieces), maxPieces)] {
		if len(p) > 0 {
			v := unix.Iovec{Base: unsafe.SliceData(p)}
			v.SetLen(len(p))
			l.iov = append(l.iov, v)
		}
	}
	l.msg = unix.Msghdr{Iov: unsafe.SliceData(l.iov)}
	l.msg.SetIovlen(len(l.iov))
	return &l.msg
}

// call makes a non-blocking system call without telling Go's scheduler.
func (l *link) call(nr uintptr, pieces [][]byte) (int, error) {
	m := l.vector(pieces)
	for {
		r, _, errno := unix.RawSyscall(nr, uintptr(l.fd), uintptr(unsafe.Pointer(m)),
			unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL)
		switch errno {
		case 0:
			return int(r), nil
		case unix.EINTR:
			continue
		case unix.EAGAIN:
			return 0, softdev.ErrAgain
		}
		return 0, errno
	}
}

func (l *link) Read(pieces [][]byte) (int, error) {
	n, err := l.call(unix.SYS_RECVMSG, pieces)
	clear(l.iov)
	if n == 0 && err == nil {
		err = io.EOF
	}
	return n, err
}

func (l *link) Write(pieces [][]byte) (int, error) {
	n, err := l.call(unix.SYS_SENDMSG, pieces)
	clear(l.iov)
	return n, err
}

func (l *link) Shutdown() { unix.Shutdown(l.fd, unix.SHUT_WR) } // fails if the peer has closed it

func (l *link) Close(abort bool) {
	if l.fd < 0 || l.net.closed.Load() { // then the socket is closed, and its number may be another's
		return
	}
	if abort {
		unix.SetsockoptLinger(l.fd, unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{Onoff: 1})
	}
	delete(l.net.owners, int32(l.fd))
	unix.Close(l.fd)
	l.fd = -1
}

// Silent reports whether nothing that was sent has been acknowledged for keepAliveTimeout. A peer with a
// zero window is probed less and less often: the system gives it up by itself.
func (l *link) Silent() bool {
	i, err := unix.GetsockoptTCPInfo(l.fd, unix.IPPROTO_TCP, unix.TCP_INFO)
	return err == nil && i.Unacked > 0 && i.Snd_wnd > 0 && i.Last_ack_recv >= keepAliveTimeout*1000
}

// Ended reports whether the peer has closed the connection, or it is gone.
func (l *link) Ended() bool {
	const closed, closeWait = 7, 8 // TCP_CLOSE, TCP_CLOSE_WAIT
	i, err := unix.GetsockoptTCPInfo(l.fd, unix.IPPROTO_TCP, unix.TCP_INFO)
	return err == nil && (i.State == closed || i.State == closeWait)
}

// MSS returns the size of a TCP segment in bytes.
func (l *link) MSS() int {
	n, err := unix.GetsockoptInt(l.fd, unix.IPPROTO_TCP, unix.TCP_MAXSEG)
	if err != nil {
		return 0
	}
	return n
}

func (l *link) LocalAddr() netip.AddrPort { return l.from }
func (l *link) PeerAddr() netip.AddrPort  { return l.to }

// acceptor is a listening socket.
type acceptor struct {
	net *network
	fd  int
	at  netip.AddrPort
}

// Listen accepts connections.
func (n *network) Listen(at netip.AddrPort, backlog int) (streamdev.Acceptor, error) {
	fd, err := n.socket(at)
	if err != nil {
		return nil, err
	}
	forkmark.Set(fd)
	if err = unix.Listen(fd, backlog); err == nil {
		err = n.control(unix.EPOLL_CTL_ADD, fd, unix.EPOLLIN)
	}
	if err != nil {
		unix.Close(fd)
		return nil, fmt.Errorf("listening at %v: %w", at, err)
	}
	a := &acceptor{net: n, fd: fd, at: at}
	if sa, err := unix.Getsockname(fd); err == nil {
		a.at = addrPort(sa)
	}
	return a, nil
}

func (a *acceptor) Own(owner any) { a.net.owners[int32(a.fd)] = owner }

func (a *acceptor) Accept() (streamdev.Link, error) {
	fd, sa, err := unix.Accept4(a.fd, unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC)
	switch err {
	case nil:
	case unix.EMFILE, unix.ENFILE, unix.ENOBUFS, unix.ENOMEM:
		return nil, os.NewSyscallError("accept", err)
	default: // including a link that has already ended
		return nil, softdev.ErrAgain
	}
	l, err := a.net.newLink(fd, addrPort(sa))
	if err != nil {
		return nil, err
	}
	return l, nil
}

func (a *acceptor) Watch(on bool) {
	if a.fd < 0 {
		return
	}
	var events uint32
	if on {
		events = unix.EPOLLIN
	}
	a.net.control(unix.EPOLL_CTL_MOD, a.fd, events) // cannot fail: the socket is in the instance
}

func (a *acceptor) Addr() netip.AddrPort { return a.at }

func (a *acceptor) Close() error {
	if a.fd < 0 || a.net.closed.Load() { // as in link.Close
		return nil
	}
	delete(a.net.owners, int32(a.fd))
	err := unix.Close(a.fd)
	a.fd = -1
	return err
}
