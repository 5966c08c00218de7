// SPDX-License-Identifier: Apache-2.0

package netio

import (
	"net"

	"golang.org/x/sys/unix"
)

// sharing are the socket options that let several sockets bind one group and port.
var sharing = []int{unix.SO_REUSEADDR}

// dontFragment makes the kernel refuse datagrams longer than the path's MTU.
func dontFragment(conn *net.UDPConn, v6 bool) error {
	return onSocket(conn, func(fd int) error {
		if v6 {
			if err := unix.SetsockoptInt(fd, unix.IPPROTO_UDP, unix.UDP_NO_CHECK6_RX, 1); err != nil {
				return err
			}
			return unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_MTU_DISCOVER, unix.IPV6_PMTUDISC_DO)
		}
		return unix.SetsockoptInt(fd, unix.IPPROTO_IP, unix.IP_MTU_DISCOVER, unix.IP_PMTUDISC_DO)
	})
}
