// SPDX-License-Identifier: Apache-2.0

package kinds

import (
	"fmt"
	"net"
	"net/netip"
	"strconv"
)

// Best returns the devices of this host by which a peer's address can be reached, the fastest first:
// shared memory if the address is this host's, then the others that need nothing but the address, by
// the local address that the system would send from. It asks for the route and sends nothing.
func Best(peer netip.Addr) ([]Name, error) {
	peer = peer.Unmap()
	c, err := net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(netip.AddrPortFrom(peer, 4791)))
	if err != nil {
		return nil, fmt.Errorf("there is no route to %v: %w", peer, err)
	}
	defer c.Close()
	from := c.LocalAddr().(*net.UDPAddr).AddrPort().Addr().Unmap()
	if i, err := strconv.Atoi(from.Zone()); err == nil { // some systems have the number there
		if n, err := net.InterfaceByIndex(i); err == nil {
			from = from.WithZone(n.Name)
		}
	}
	own, err := isOwn(peer)
	if err != nil {
		return nil, err
	}
	var found []Name
	for _, k := range Table {
		switch {
		case k.Host && own && k.Listed:
			found = append([]Name{{Kind: k}}, found...)
		case !k.Host && !k.Link && !k.Soft && !k.Hardware && k.Listed:
			found = append(found, k.NameAt(from.String()))
		}
	}
	return found, nil
}

// isOwn reports whether an address is one of this host.
func isOwn(a netip.Addr) (bool, error) {
	if a.IsLoopback() {
		return true, nil
	}
	local, err := ipNaming{}.Local()
	for _, l := range local {
		if own, err := netip.ParseAddr(l.Address); err == nil && own.WithZone("") == a.WithZone("") {
			return true, nil
		}
	}
	return false, err
}
