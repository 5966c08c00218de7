// SPDX-License-Identifier: Apache-2.0

package netio

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

// Connected sends to one peer from a port of its own, with less work for the kernel: it knows the
// route, which an unconnected socket looks up for each send. It receives nothing.
//
// Over IPv4 the identification of its sends counts up by one with each send. The datagrams of a
// train have that of the send, the next one, and so on. Only one goroutine at a time may use a
// Connected.
type Connected struct {
	socket *batched
	fd     int // -1: closed
	local  netip.AddrPort
	marks  marks  // of its datagrams
	id     uint16 // of the next send
}

// connectedBuffer is the receive buffer size to request. Only datagrams that reveal the
// identification arrive.
const connectedBuffer = 16 << 10

// Connect creates a socket that sends to one peer from the socket's own address and another port.
// It belongs to the socket and is closed with it at the latest. Trains with the marks ttl and tos,
// see [Train.Mark], take the least work; others may be sent too.
//
// It returns an error on systems where the identification cannot be learned, or where a connected
// socket gains nothing.
func (s *Socket) Connect(to netip.AddrPort, ttl, tos uint8) (*Connected, error) {
	b, ok := s.impl.(*batched)
	if !ok {
		return nil, fmt.Errorf("netio: connect to %v: %w by a plain socket", to, errors.ErrUnsupported)
	}
	c, err := b.connect(to, marks{int(ttl), tos})
	if err != nil {
		return nil, fmt.Errorf("netio: connect %v to %v: %w", s.local.Addr(), to, err)
	}
	return c, nil
}

func (s *batched) connect(to netip.AddrPort, m marks) (*Connected, error) {
	s.changes.Lock()
	defer s.changes.Unlock()
	if s.closed.Load() {
		return nil, net.ErrClosed
	}
	if to.Addr().Is4() != s.local.Addr().Is4() {
		return nil, errFamily
	}
	if s.local.Addr().IsUnspecified() || to.Addr().IsMulticast() {
		return nil, errors.ErrUnsupported
	}
	o := Options{RecvBuffer: connectedBuffer, SendBuffer: s.ownBuffers().SendBuffer}
	fd, err := s.open(netip.AddrPortFrom(s.local.Addr(), 0), o, 0)
	if err != nil {
		return nil, err
	}
	// With control messages for its IP headers the kernel would look up the route for each send, as
	// for an unconnected socket.
	c := &Connected{socket: s, fd: fd, marks: m.set(fd, to.Addr().Is4(), s.marks)}
	if err := c.start(to); err != nil {
		unix.Close(fd)
		return nil, err
	}
	s.files.add(fd)
	return c, nil
}

// start connects the new socket.
func (c *Connected) start(to netip.AddrPort) error {
	if err := sameNamespace(c.fd, (*c.socket.ports.Load())[0].fd); err != nil {
		return err
	}
	peer, err := c.socket.zones.sockaddr(to)
	if err != nil {
		return err
	}
	if err := unix.Connect(c.fd, peer); err != nil {
		return os.NewSyscallError("connect", err)
	}
	self, err := unix.Getsockname(c.fd)
	if err != nil {
		return os.NewSyscallError("getsockname", err)
	}
	c.local = netip.AddrPortFrom(c.socket.local.Addr(), portOf(self))
	return c.learn()
}

// sameNamespace returns an error unless two sockets belong to one network namespace. A socket
// belongs to that of the thread that created it.
func sameNamespace(a, b int) error {
	x, err := unix.GetsockoptUint64(a, unix.SOL_SOCKET, unix.SO_NETNS_COOKIE)
	if err != nil {
		return os.NewSyscallError("getsockopt SO_NETNS_COOKIE", err)
	}
	y, err := unix.GetsockoptUint64(b, unix.SOL_SOCKET, unix.SO_NETNS_COOKIE)
	if err != nil {
		return os.NewSyscallError("getsockopt SO_NETNS_COOKIE", err)
	}
	if x != y {
		return fmt.Errorf("the thread is in another network namespace: %w", errors.ErrUnsupported)
	}
	return nil
}

// LocalAddr returns the source of its datagrams: the socket's address, and a port chosen by the
// system.
func (c *Connected) LocalAddr() netip.AddrPort { return c.local }

// Identification returns the identification of the next datagram; datagrams of a train count up
// from it. IPv6 has none.
func (c *Connected) Identification() uint16 { return c.id }

// Send sends a train to the peer like [Socket.Send], and ignores the train's destination. After an
// error other than [ErrAgain] the identification is unknown: nothing can be sent before
// [Connected.Recount].
//
// An ICMP report of earlier datagrams is such an error, for example syscall.ECONNREFUSED: no
// socket has the peer's port.
func (c *Connected) Send(t *Train) error {
	if t.count == 0 {
		return nil
	}
	if err := t.check(); err != nil {
		return err
	}
	s := c.socket
	if s.closed.Load() || c.fd < 0 {
		return net.ErrClosed
	}
	err := c.send(t)
	runtime.KeepAlive(s)
	return err
}

// Unsent is like [Socket.Unsent].
func (c *Connected) Unsent() int {
	if c.socket.closed.Load() || c.fd < 0 {
		return 0
	}
	n := unsentBy(c.fd)
	runtime.KeepAlive(c.socket)
	return n
}

func (c *Connected) send(t *Train) error {
	s := c.socket
	var control sendControl
	s.mark(&control, t, c.marks)
	if t.count > 1 && s.feats.GSO && !s.noGSO.Load() && t.sent == 0 {
		control.add(unix.IPPROTO_UDP, unix.UDP_SEGMENT, 2, uint32(t.segment))
	} else if t.count > 1 {
		first := t.sent
		err := s.sendSingly(c.fd, nil, 0, t, &control)
		end := t.sent
		if err == nil {
			end = t.count
		}
		c.id += uint16(end - first)
		return err
	}
	if errno := sendPieces(c.fd, nil, 0, t.pieces, &control); errno != 0 {
		return s.sendError(c.fd, errno)
	}
	c.id++
	return nil
}

// Recount learns the identification again after a failed Send. If it fails, nothing can be sent any
// more.
func (c *Connected) Recount() error {
	if c.socket.closed.Load() || c.fd < 0 {
		return net.ErrClosed
	}
	// ICMP errors stay pending until some call returns them.
	_, _ = unix.GetsockoptInt(c.fd, unix.SOL_SOCKET, unix.SO_ERROR)
	return c.learn()
}

// Close frees the socket. Closing twice is harmless.
func (c *Connected) Close() {
	s := c.socket
	if c.fd < 0 {
		return
	}
	if s.full.CompareAndSwap(int32(c.fd), 0) {
		s.waiter.wake() // a wait for room on this socket
	}
	s.files.close(c.fd)
	c.fd = -1
}

// learn learns the identification of the next send. The kernel counts from a random number, which
// it draws when a socket is connected. A timestamp of a sent datagram comes back with the datagram
// as it left, including its IP header. These datagrams go to a socket created for them.
func (c *Connected) learn() error {
	if !c.local.Addr().Is4() {
		return nil
	}
	sink, to, err := newSink(c.local.Addr())
	if err != nil {
		return err
	}
	defer unix.Close(sink)
	before, err := c.probe(to)
	if err != nil {
		return err
	}
	// Check that a train takes one number.
	sends := uint16(1)
	if c.socket.features().GSO {
		if err := c.sendPair(to); err != nil {
			return err
		}
		sends++
	}
	after, err := c.probe(to)
	if err != nil {
		return err
	}
	if after != before+sends {
		return fmt.Errorf("identifications do not count sends: %#x, then %#x after %d: %w", before, after, sends,
			errors.ErrUnsupported)
	}
	c.id = after + 1
	return nil
}

// newSink creates a socket for datagrams that are not read.
func newSink(addr netip.Addr) (int, *unix.SockaddrInet4, error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return -1, nil, os.NewSyscallError("socket", err)
	}
	self := &unix.SockaddrInet4{Addr: addr.As4()}
	if err := unix.Bind(fd, self); err != nil {
		unix.Close(fd)
		return -1, nil, os.NewSyscallError("bind", err)
	}
	sa, err := unix.Getsockname(fd)
	if err != nil {
		unix.Close(fd)
		return -1, nil, os.NewSyscallError("getsockname", err)
	}
	self.Port = int(portOf(sa))
	return fd, self, nil
}

// probe sends an empty datagram and returns the identification that it had.
func (c *Connected) probe(to *unix.SockaddrInet4) (uint16, error) {
	if err := setTimestamps(c.fd, unix.SOF_TIMESTAMPING_TX_SCHED|unix.SOF_TIMESTAMPING_SOFTWARE); err != nil {
		return 0, err
	}
	sent := unix.Sendto(c.fd, nil, unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL, to)
	if err := setTimestamps(c.fd, 0); err != nil {
		return 0, err
	}
	if sent != nil {
		return 0, os.NewSyscallError("sendto", sent)
	}
	var b, oob [256]byte
	n, _, _, _, err := unix.Recvmsg(c.fd, b[:], oob[:], unix.MSG_ERRQUEUE|unix.MSG_DONTWAIT)
	if err != nil {
		return 0, os.NewSyscallError("recvmsg MSG_ERRQUEUE", err)
	}
	id, ok := identification(b[:n], c.local, netip.AddrPortFrom(c.local.Addr(), uint16(to.Port)))
	if !ok {
		return 0, fmt.Errorf("the kernel shows another datagram than the one sent, % x: %w", b[:n],
			errors.ErrUnsupported)
	}
	return id, nil
}

func setTimestamps(fd, flags int) error {
	return os.NewSyscallError("setsockopt SO_TIMESTAMPING",
		unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_TIMESTAMPING, flags))
}

// sendPair sends a train of two one-byte datagrams.
func (c *Connected) sendPair(to *unix.SockaddrInet4) error {
	var raw rawAddr
	length, err := c.socket.zones.put(&raw, netip.AddrPortFrom(netip.AddrFrom4(to.Addr), uint16(to.Port)))
	if err != nil {
		return err
	}
	var control sendControl
	control.add(unix.IPPROTO_UDP, unix.UDP_SEGMENT, 2, 1)
	data := [2]byte{}
	if errno := sendPieces(c.fd, &raw, length, []piece{{&data[0], 2}}, &control); errno != 0 {
		return sendError(errno)
	}
	return nil
}

// identification extracts the identification of an empty UDP datagram over IPv4 between two
// endpoints from the frame that carried it over the loopback interface.
func identification(frame []byte, from, to netip.AddrPort) (id uint16, ok bool) {
	const ethernet, ipv4, udp = 14, 20, 8
	if len(frame) != ethernet+ipv4+udp || binary.BigEndian.Uint16(frame[ethernet-2:]) != unix.ETH_P_IP {
		return 0, false
	}
	ip := frame[ethernet:]
	src, dst := netip.AddrFrom4([4]byte(ip[12:])), netip.AddrFrom4([4]byte(ip[16:]))
	ports := ip[ipv4:]
	if ip[0] != 0x45 || ip[9] != unix.IPPROTO_UDP ||
		netip.AddrPortFrom(src, binary.BigEndian.Uint16(ports)) != from ||
		netip.AddrPortFrom(dst, binary.BigEndian.Uint16(ports[2:])) != to {
		return 0, false
	}
	return binary.BigEndian.Uint16(ip[4:]), true
}
