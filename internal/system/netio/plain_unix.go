// SPDX-License-Identifier: Apache-2.0

//go:build linux || darwin || freebsd

package netio

import (
	"fmt"
	"net"
	"net/netip"
	"os"

	"golang.org/x/sys/unix"
)

// onSocket runs f on the connection's file descriptor.
func onSocket(conn *net.UDPConn, f func(fd int) error) error {
	raw, err := conn.SyscallConn()
	if err != nil {
		return err
	}
	var failure error
	if err := raw.Control(func(fd uintptr) { failure = f(int(fd)) }); err != nil {
		return err
	}
	return os.NewSyscallError("setsockopt", failure)
}

// listenGroup opens a connection bound to a group and joined on an interface. Package net's own
// would bind to the wildcard address, which conflicts with the first socket.
func listenGroup(group netip.AddrPort, ifi *net.Interface) (conn *net.UDPConn, err error) {
	family := unix.AF_INET
	if group.Addr().Is6() {
		family = unix.AF_INET6
	}
	fd, err := unix.Socket(family, unix.SOCK_DGRAM, 0)
	if err != nil {
		return nil, os.NewSyscallError("socket", err)
	}
	unix.CloseOnExec(fd)
	file := os.NewFile(uintptr(fd), "group")
	defer file.Close() // net.FilePacketConn has its own
	if err := bindGroup(fd, group, ifi.Index); err != nil {
		return nil, err
	}
	pc, err := net.FilePacketConn(file)
	if err != nil {
		return nil, err
	}
	return pc.(*net.UDPConn), nil
}

func bindGroup(fd int, group netip.AddrPort, index int) error {
	for _, option := range sharing {
		if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, option, 1); err != nil {
			return os.NewSyscallError("setsockopt", err)
		}
	}
	addr := group.Addr()
	if addr.Is4() {
		sa := &unix.SockaddrInet4{Port: int(group.Port()), Addr: addr.As4()}
		if err := unix.Bind(fd, sa); err != nil {
			return os.NewSyscallError("bind", err)
		}
		mreq := &unix.IPMreqn{Multiaddr: addr.As4(), Ifindex: int32(index)}
		return os.NewSyscallError("setsockopt IP_ADD_MEMBERSHIP",
			unix.SetsockoptIPMreqn(fd, unix.IPPROTO_IP, unix.IP_ADD_MEMBERSHIP, mreq))
	}
	sa := &unix.SockaddrInet6{Port: int(group.Port()), Addr: addr.As16()}
	if addr.IsLinkLocalMulticast() || addr.IsInterfaceLocalMulticast() {
		sa.ZoneId = uint32(index)
	}
	if err := unix.Bind(fd, sa); err != nil {
		return os.NewSyscallError("bind", err)
	}
	mreq := &unix.IPv6Mreq{Multiaddr: addr.As16(), Interface: uint32(index)}
	return os.NewSyscallError("setsockopt IPV6_JOIN_GROUP",
		unix.SetsockoptIPv6Mreq(fd, unix.IPPROTO_IPV6, unix.IPV6_JOIN_GROUP, mreq))
}

// multicastRoute reports whether the system has a route for groups on an interface. Without one
// nothing is received either. Linux has none for IPv6 on the loopback interface.
func multicastRoute(group netip.Addr, ifi *net.Interface) error {
	if group.Is4() {
		return nil
	}
	fd, err := unix.Socket(unix.AF_INET6, unix.SOCK_DGRAM, 0)
	if err != nil {
		return os.NewSyscallError("socket", err)
	}
	defer unix.Close(fd)
	if err := unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_MULTICAST_IF, ifi.Index); err != nil {
		return os.NewSyscallError("setsockopt IPV6_MULTICAST_IF", err)
	}
	if err := unix.Connect(fd, &unix.SockaddrInet6{Port: 9, Addr: group.As16(),
		ZoneId: uint32(ifi.Index)}); err != nil {
		return fmt.Errorf("interface %s has no route for IPv6 groups: %w", ifi.Name, err)
	}
	return nil
}

// multicastThrough makes multicasts leave by an interface.
func multicastThrough(conn *net.UDPConn, v6 bool, ifi *net.Interface) error {
	return onSocket(conn, func(fd int) error {
		if v6 {
			return unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_MULTICAST_IF, ifi.Index)
		}
		return unix.SetsockoptIPMreqn(fd, unix.IPPROTO_IP, unix.IP_MULTICAST_IF,
			&unix.IPMreqn{Ifindex: int32(ifi.Index)})
	})
}
