// SPDX-License-Identifier: Apache-2.0

package linkwatch

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
)

// CheckRoute reports whether the system has a route from an address of the interface named dev to a
// peer's address, whose zone, if any, is the name or the number of an interface. It sends nothing.
// The error names both addresses.
func CheckRoute(dev string, from, to netip.Addr) error {
	if to.Is6() && to.IsLinkLocalUnicast() {
		return checkZone(dev, from, to)
	}
	const discard = 9 // connecting a datagram socket only looks up the route; the port does not matter
	c, err := net.DialUDP("udp", net.UDPAddrFromAddrPort(netip.AddrPortFrom(from, 0)),
		net.UDPAddrFromAddrPort(netip.AddrPortFrom(to.WithZone(""), discard)))
	if err == nil {
		return c.Close()
	}
	var sys *net.OpError
	if errors.As(err, &sys) {
		err = sys.Err
	}
	return fmt.Errorf("no route from %v to %v: %w", from, to, err)
}

// checkZone checks that a link-local address is on the interface's own link (RFC 4007 section 6).
// Without a zone it is.
func checkZone(dev string, from, to netip.Addr) error {
	zone := to.Zone()
	if zone == "" || zone == dev {
		return nil
	}
	if i, err := net.InterfaceByName(dev); err == nil && zone != strconv.Itoa(i.Index) {
		return fmt.Errorf("%v is of the link %s, and %v of %s", to.WithZone(""), zone, from, i.Name)
	}
	return nil
}
