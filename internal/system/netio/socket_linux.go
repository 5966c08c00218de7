// SPDX-License-Identifier: Apache-2.0

package netio

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ramjet-rdma/ramjet/internal/system/forkmark"
	"github.com/ramjet-rdma/ramjet/internal/system/pollwait"
)

// batched is a socket outside Go's network poller.
type batched struct {
	closed atomic.Bool
	files  *descriptors
	local  netip.AddrPort
	dual   bool // it takes IPv4 addresses too, though local is IPv6
	feats  Features
	marks  marks        // of the first socket's datagrams
	noGSO  atomic.Bool  // the network device refused it
	full   atomic.Int32 // the socket whose buffer is full; 0: none

	ports   atomic.Pointer[[]port] // first the socket itself, then one per group
	changes sync.Mutex             // held to change the fields that follow, and to close
	retired []int                  // sockets of left groups, no longer in ports, to be closed by recv
	leaving atomic.Bool            // retired is not empty
	out     atomic.Bool            // outgoing multicast has its interface
	headers bool

	rx     receiver
	waiter *waiter
	zones  zones
}

// port is a socket that recv reads from.
type port struct {
	fd int
	to netip.Addr // destination of all its datagrams; invalid on a wildcard address
}

// listenBatched opens the socket.
func listenBatched(local netip.AddrPort, o Options) (transport, netip.AddrPort, error) {
	if _, err := deadFile(); err != nil { // Close needs it
		return nil, netip.AddrPort{}, os.NewSyscallError("eventfd", err)
	}
	s := &batched{files: &descriptors{}, dual: o.DualStack && local.Addr() == netip.IPv6Unspecified()}
	fd, err := s.open(local, o, 0)
	if err != nil {
		return nil, netip.AddrPort{}, err
	}
	if err := s.start(fd, local.Addr()); err != nil {
		unix.Close(fd)
		return nil, netip.AddrPort{}, err
	}
	return s, s.local, nil
}

// start makes a socket bound to addr the first that recv and wait serve.
func (s *batched) start(fd int, addr netip.Addr) error {
	sa, err := unix.Getsockname(fd)
	if err != nil {
		return os.NewSyscallError("getsockname", err)
	}
	s.local = netip.AddrPortFrom(addr, portOf(sa))
	p := port{fd: fd}
	if !addr.IsUnspecified() {
		p.to = addr
	}
	s.ports.Store(&[]port{p})
	s.feats = probe(fd)
	s.marks.ttl = defaultTTL(fd, addr.Is4())
	s.rx.init()
	if s.waiter, err = newWaiter(); err != nil {
		return err
	}
	s.files.event = s.waiter.event
	s.files.add(fd)
	runtime.AddCleanup(s, (*descriptors).free, s.files)
	return nil
}

// ownBuffers requests buffers like the first socket's. The kernel reports twice the requested size.
func (s *batched) ownBuffers() Options {
	return Options{RecvBuffer: s.feats.RecvBuffer / 2, SendBuffer: s.feats.SendBuffer / 2}
}

// open creates a non-blocking socket with this package's options, bound to an address. reuse is the
// socket option that lets several sockets bind it, or 0.
func (s *batched) open(local netip.AddrPort, o Options, reuse int) (int, error) {
	family := unix.AF_INET
	if local.Addr().Is6() {
		family = unix.AF_INET6
	}
	fd, err := unix.Socket(family, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return -1, os.NewSyscallError("socket", err)
	}
	forkmark.Set(fd)
	if err := s.prepare(fd, local, o, reuse); err != nil {
		unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

// prepare sets a socket's options and binds it.
func (s *batched) prepare(fd int, local netip.AddrPort, o Options, reuse int) error {
	var err error
	set := func(name string, level, option, value int) {
		if err == nil {
			err = os.NewSyscallError("setsockopt "+name, unix.SetsockoptInt(fd, level, option, value))
		}
	}
	if local.Addr().Is4() {
		if !o.Fragments {
			set("IP_MTU_DISCOVER", unix.IPPROTO_IP, unix.IP_MTU_DISCOVER, unix.IP_PMTUDISC_DO)
		}
	} else {
		v6only := 1
		if s.dual {
			v6only = 0
		}
		set("IPV6_V6ONLY", unix.IPPROTO_IPV6, unix.IPV6_V6ONLY, v6only)
		if !o.Fragments {
			set("IPV6_MTU_DISCOVER", unix.IPPROTO_IPV6, unix.IPV6_MTU_DISCOVER, unix.IPV6_PMTUDISC_DO)
		}
		// Linux's RoCEv2 sends UDP checksum 0 over IPv6 also (RFC 6936).
		set("UDP_NO_CHECK6_RX", unix.IPPROTO_UDP, unix.UDP_NO_CHECK6_RX, 1)
	}
	if reuse != 0 {
		set("SO_REUSEADDR or SO_REUSEPORT", unix.SOL_SOCKET, reuse, 1)
	}
	set("SO_RCVBUF", unix.SOL_SOCKET, unix.SO_RCVBUF, o.RecvBuffer)
	set("SO_SNDBUF", unix.SOL_SOCKET, unix.SO_SNDBUF, o.SendBuffer)
	if err != nil {
		return err
	}
	// Linux before 5.0 has no UDP_GRO; datagrams then come one by one.
	_ = unix.SetsockoptInt(fd, unix.IPPROTO_UDP, unix.UDP_GRO, 1)

	sa, err := s.zones.sockaddr(local)
	if err != nil {
		return err
	}
	if err := unix.Bind(fd, sa); err != nil {
		switch {
		case errors.Is(err, unix.EADDRNOTAVAIL):
			return fmt.Errorf("%v is not an address of this host: %w", local.Addr(), os.NewSyscallError("bind", err))
		case errors.Is(err, unix.EADDRINUSE):
			return fmt.Errorf("port %d is in use: %w", local.Port(), os.NewSyscallError("bind", err))
		}
		return os.NewSyscallError("bind", err)
	}
	return nil
}

// probe asks the system for the socket's features.
func probe(fd int) Features {
	f := Features{MaxSegments: defaultSegments, Batch: batch}
	if v, err := unix.GetsockoptInt(fd, unix.IPPROTO_UDP, unix.UDP_GRO); err == nil {
		f.GRO = v == 1
	}
	if _, err := unix.GetsockoptInt(fd, unix.IPPROTO_UDP, unix.UDP_SEGMENT); err == nil {
		f.GSO = true
		f.MaxSegments = maxSegments()
	}
	f.RecvBuffer, _ = unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUF)
	f.SendBuffer, _ = unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_SNDBUF)
	return f
}

// segmentLimit caches the result of maxSegments.
var segmentLimit atomic.Int32

// maxSegments returns 128 if the kernel takes a train of 128 (since Linux 6.9), otherwise 64. A
// probe socket sends one to itself.
func maxSegments() int {
	if n := segmentLimit.Load(); n != 0 {
		return int(n)
	}
	const more = 128
	switch err := probeSegments(more); {
	case err == nil:
		segmentLimit.Store(more)
		return more
	case errors.Is(err, unix.EINVAL):
		segmentLimit.Store(defaultSegments)
	}
	return defaultSegments // or the loopback interface does not work at the moment
}

func probeSegments(n int) error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if err := unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		return err
	}
	self, err := unix.Getsockname(fd)
	if err != nil {
		return err
	}
	if err := unix.SetsockoptInt(fd, unix.IPPROTO_UDP, unix.UDP_SEGMENT, 1); err != nil {
		return err
	}
	return unix.Sendto(fd, make([]byte, n), unix.MSG_DONTWAIT, self)
}

func (s *batched) features() Features {
	f := s.feats
	f.GSO = f.GSO && !s.noGSO.Load()
	return f
}

func (s *batched) wait(writable bool) error {
	defer runtime.KeepAlive(s)
	ports := *s.ports.Load()
	return s.waiter.wait(ports, s.fullOf(ports, writable))
}

// fullOf returns the full socket, if a goroutine waits until it can be written; otherwise 0.
func (s *batched) fullOf(ports []port, writable bool) int {
	if !writable {
		return 0
	}
	if full := int(s.full.Load()); full != 0 {
		return full
	}
	return ports[0].fd
}

func (s *batched) beginWait(writable bool, at *pollwait.Set) bool {
	ports := *s.ports.Load()
	return s.waiter.begin(ports, s.fullOf(ports, writable), at)
}

func (s *batched) endWait(readable bool) { s.waiter.end(readable) }

func (s *batched) canPark() bool { return true }

func (s *batched) park(d time.Duration) {
	defer runtime.KeepAlive(s)
	if s.closed.Load() {
		return
	}
	park(*s.ports.Load(), d)
}

func (s *batched) setDeadline(t time.Time) { s.waiter.setDeadline(t) }

func (s *batched) wake() { s.waiter.wake() }

func (s *batched) recvHeaders(on bool) error {
	s.changes.Lock()
	defer s.changes.Unlock()
	if s.closed.Load() {
		return net.ErrClosed
	}
	s.headers = on
	for _, p := range *s.ports.Load() {
		if err := setHeaders(p.fd, s.local.Addr().Is6(), on); err != nil {
			return fmt.Errorf("netio: receive headers: %w", err)
		}
	}
	return nil
}

func (s *batched) recvTOS() error {
	s.changes.Lock()
	defer s.changes.Unlock()
	if s.closed.Load() {
		return net.ErrClosed
	}
	level, option := unix.IPPROTO_IP, unix.IP_RECVTOS
	if s.local.Addr().Is6() {
		level, option = unix.IPPROTO_IPV6, unix.IPV6_RECVTCLASS
	}
	if err := unix.SetsockoptInt((*s.ports.Load())[0].fd, level, option, 1); err != nil {
		return fmt.Errorf("netio: receive TOS: %w", os.NewSyscallError("setsockopt", err))
	}
	return nil
}

// setHeaders requests the control messages that receiver.control reads.
func setHeaders(fd int, v6, on bool) error {
	value := 0
	if on {
		value = 1
	}
	level, options := unix.IPPROTO_IP, [...]int{unix.IP_PKTINFO, unix.IP_RECVTTL, unix.IP_RECVTOS}
	if v6 {
		level, options = unix.IPPROTO_IPV6, [...]int{unix.IPV6_RECVPKTINFO, unix.IPV6_RECVHOPLIMIT,
			unix.IPV6_RECVTCLASS}
	}
	for _, option := range options {
		if err := unix.SetsockoptInt(fd, level, option, value); err != nil {
			return os.NewSyscallError("setsockopt", err)
		}
	}
	return nil
}

func (s *batched) close() error {
	s.changes.Lock()
	defer s.changes.Unlock()
	if s.closed.Swap(true) {
		return nil
	}
	s.waiter.close()
	return os.NewSyscallError("netio: close: eventfd", s.files.bury())
}

// free waits for calls that hold changes.
func (s *batched) free() {
	s.changes.Lock()
	defer s.changes.Unlock()
	if s.closed.Load() {
		s.files.free()
	}
}

// reap closes the sockets of groups that were left. Only recv calls it, so no recv can be using
// them.
func (s *batched) reap() {
	s.changes.Lock()
	defer s.changes.Unlock()
	if s.closed.Load() {
		return
	}
	for _, fd := range s.retired {
		s.files.close(fd)
	}
	s.retired = s.retired[:0]
	s.leaving.Store(false)
}

// addPort makes recv and wait serve one more socket. changes is held.
func (s *batched) addPort(p port) {
	s.files.add(p.fd)
	ports := append(slices.Clone(*s.ports.Load()), p)
	s.ports.Store(&ports)
	s.waiter.wake() // a pending wait does not know it
}

// removePort undoes addPort. changes is held.
func (s *batched) removePort(to netip.Addr) {
	ports := slices.Clone(*s.ports.Load())
	for i, p := range ports[1:] {
		if p.to == to {
			s.retired = append(s.retired, p.fd)
			s.leaving.Store(true)
			ports = slices.Delete(ports, i+1, i+2)
			s.ports.Store(&ports)
			return
		}
	}
}
