// SPDX-License-Identifier: Apache-2.0

package loopback

import (
	"fmt"
	"net"
	"net/netip"
)

// JoinGroup says why a plain socket cannot join a multicast group on an interface, or not
// send to it; nil: it can, and so can a device. No name stands for the loopback interface.
func JoinGroup(link string, group netip.Addr) error {
	interfaces, err := net.Interfaces()
	if err != nil {
		return err
	}
	for _, ifi := range interfaces {
		if ifi.Name != link && (link != "" || ifi.Flags&net.FlagLoopback == 0) {
			continue
		}
		c, err := net.ListenMulticastUDP("udp", &ifi, net.UDPAddrFromAddrPort(netip.AddrPortFrom(group, 0)))
		if err != nil {
			return fmt.Errorf("a plain socket cannot join %v: %w", group, err)
		}
		defer c.Close()
		if group.Is6() { // an interface may have no route for groups
			_, err = c.WriteToUDPAddrPort([]byte("?"), netip.AddrPortFrom(group.WithZone(ifi.Name), 9))
		}
		return err
	}
	return fmt.Errorf("no interface %q", link)
}
