// SPDX-License-Identifier: Apache-2.0

//go:build darwin || freebsd

package netio

import (
	"net"

	"golang.org/x/sys/unix"
)

// sharing are the socket options that let several sockets bind one group and port.
var sharing = []int{unix.SO_REUSEADDR, unix.SO_REUSEPORT}

// dontFragment makes the kernel refuse datagrams longer than the path's MTU.
func dontFragment(conn *net.UDPConn, v6 bool) error {
	return onSocket(conn, func(fd int) error {
		if v6 {
			return unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_DONTFRAG, 1)
		}
		return unix.SetsockoptInt(fd, unix.IPPROTO_IP, unix.IP_DONTFRAG, 1)
	})
}
