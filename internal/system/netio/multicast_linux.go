// SPDX-License-Identifier: Apache-2.0

package netio

import (
	"net"
	"net/netip"
	"os"

	"golang.org/x/sys/unix"
)

// A socket bound to a unicast address gets nothing that is sent to a group. So
// each group has a socket of its own, bound to the group's address and the same
// port, which recv and wait serve along with the first one.

func (s *batched) joinGroup(group netip.Addr) error {
	s.changes.Lock()
	defer s.changes.Unlock()
	if s.closed.Load() {
		return net.ErrClosed
	}
	for _, p := range *s.ports.Load() {
		if p.to == group {
			return nil
		}
	}
	if group.Is4() != s.local.Addr().Is4() {
		return errFamily
	}
	ifi, err := interfaceOf(s.local.Addr())
	if err != nil {
		return err
	}
	if err := multicastRoute(group, ifi); err != nil {
		return err
	}
	fd, err := s.openGroup(group, ifi)
	if err != nil {
		return err
	}
	s.addPort(port{fd: fd, to: group})
	return nil
}

// openGroup opens a socket that receives datagrams to a group that arrive on the given
// interface.
func (s *batched) openGroup(group netip.Addr, ifi *net.Interface) (int, error) {
	bind := group
	if group.Is6() && (group.IsLinkLocalMulticast() || group.IsInterfaceLocalMulticast()) {
		bind = group.WithZone(ifi.Name)
	}
	fd, err := s.open(netip.AddrPortFrom(bind, s.local.Port()), s.ownBuffers(), unix.SO_REUSEADDR)
	if err != nil {
		return -1, err
	}
	if group.Is4() {
		// Without IP_MULTICAST_ALL=0 a socket receives datagrams to groups that any socket of this
		// host has joined, from any interface.
		err = os.NewSyscallError("setsockopt IP_MULTICAST_ALL",
			unix.SetsockoptInt(fd, unix.IPPROTO_IP, unix.IP_MULTICAST_ALL, 0))
		if err == nil {
			err = os.NewSyscallError("setsockopt IP_ADD_MEMBERSHIP",
				unix.SetsockoptIPMreqn(fd, unix.IPPROTO_IP, unix.IP_ADD_MEMBERSHIP,
					&unix.IPMreqn{Multiaddr: group.As4(), Ifindex: int32(ifi.Index)}))
		}
	} else {
		err = os.NewSyscallError("setsockopt IPV6_MULTICAST_ALL",
			unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_MULTICAST_ALL, 0))
		if err == nil {
			err = os.NewSyscallError("setsockopt IPV6_JOIN_GROUP",
				unix.SetsockoptIPv6Mreq(fd, unix.IPPROTO_IPV6, unix.IPV6_JOIN_GROUP,
					&unix.IPv6Mreq{Multiaddr: group.As16(), Interface: uint32(ifi.Index)}))
		}
	}
	if err == nil && s.headers {
		err = setHeaders(fd, group.Is6(), true)
	}
	if err != nil {
		unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

func (s *batched) leaveGroup(group netip.Addr) error {
	s.changes.Lock()
	defer s.changes.Unlock()
	if s.closed.Load() {
		return net.ErrClosed
	}
	s.removePort(group)
	return nil
}

// multicastOut makes multicasts leave by the interface of the local address, and loop back to
// members on this host.
func (s *batched) multicastOut() error {
	s.changes.Lock()
	defer s.changes.Unlock()
	if s.closed.Load() {
		return net.ErrClosed
	}
	if s.out.Load() {
		return nil
	}
	ifi, err := interfaceOf(s.local.Addr())
	if err != nil {
		return err
	}
	fd := (*s.ports.Load())[0].fd
	if s.local.Addr().Is4() {
		err = unix.SetsockoptIPMreqn(fd, unix.IPPROTO_IP, unix.IP_MULTICAST_IF,
			&unix.IPMreqn{Ifindex: int32(ifi.Index)})
		if err == nil {
			err = unix.SetsockoptInt(fd, unix.IPPROTO_IP, unix.IP_MULTICAST_LOOP, 1)
		}
	} else {
		err = unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_MULTICAST_IF, ifi.Index)
		if err == nil {
			err = unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_MULTICAST_LOOP, 1)
		}
	}
	if err != nil {
		return os.NewSyscallError("netio: send to a group: setsockopt", err)
	}
	s.out.Store(true)
	return nil
}
