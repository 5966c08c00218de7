// SPDX-License-Identifier: Apache-2.0

package cm

import (
	"fmt"
	"net"
	"net/netip"
	"slices"

	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/verbs/driver"
	"github.com/ramjet-rdma/ramjet/wire/ib"
)

// addrsOf returns the addresses of a device: IP addresses that it has besides its GIDs, and the addresses in
// the GID table.
func addrsOf(drv driver.Device, gids []verbs.GIDEntry) (addrs []netip.Addr) {
	if n, ok := drv.(driver.Connector); ok {
		addrs = n.Addrs(1)
	}
	for _, g := range gids {
		addrs = append(addrs, g.GID.Addr())
	}
	return addrs
}

// choose returns the address of a device that takes the place of an unspecified one. With a peer it is the
// address that the system would send from, or else an address of the peer's family. Without a peer (the zero
// Addr) it is an IPv4 address for 0.0.0.0, and any address for ::. Link-local addresses come last, unless the
// peer has one, too.
func choose(addrs []netip.Addr, unspecified, to netip.Addr) netip.Addr {
	if len(addrs) == 1 {
		return addrs[0]
	}
	if from, ok := sourceFor(to); ok && slices.Contains(addrs, from) {
		return from
	}
	best, most := addrs[0], -1
	for _, a := range addrs {
		points := 0
		if to.IsValid() && a.Is4() == to.Is4() || !to.IsValid() && unspecified.Is4() && a.Is4() {
			points += 2
		}
		if a.IsLinkLocalUnicast() == to.IsLinkLocalUnicast() {
			points++
		}
		if points > most {
			best, most = a, points
		}
	}
	return best
}

// sourceFor returns the address that the system would send from. It sends nothing.
func sourceFor(to netip.Addr) (netip.Addr, bool) {
	const discard = 9
	if !to.IsValid() || to.IsUnspecified() {
		return netip.Addr{}, false
	}
	c, err := net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(netip.AddrPortFrom(to, discard)))
	if err != nil {
		return netip.Addr{}, false
	}
	defer c.Close()
	return c.LocalAddr().(*net.UDPAddr).AddrPort().Addr().Unmap().WithZone(""), true
}

// gids returns the device's GID table.
func (m *manager) gids() []verbs.GIDEntry {
	gids, err := m.drv.GIDs(1)
	if err != nil {
		return nil
	}
	return gids
}

// local returns the device's address that a stands for, to reach a peer; the zero Addr is none.
func (m *manager) local(a, to netip.Addr) (netip.Addr, error) {
	a = a.Unmap().WithZone("")
	addrs := addrsOf(m.drv, m.gids())
	if len(addrs) == 0 {
		return a, fmt.Errorf("%w: %s has no address now", ErrNoAddr, m.name)
	}
	if !a.IsValid() || a.IsUnspecified() {
		return choose(addrs, a, to), nil
	}
	if !slices.Contains(addrs, a) {
		return a, fmt.Errorf("%w: %v is not an address of %s", ErrNoAddr, a, m.name)
	}
	return a, nil
}

// row returns the row of the GID table that has an address of the device, and its type.
func (m *manager) row(a netip.Addr) (index int, typ verbs.GIDType) {
	gid := ib.GIDFromAddr(a)
	for _, g := range m.gids() {
		if g.GID == gid {
			return g.Index, g.Type
		}
	}
	return 0, 0
}

// addrAt returns the address in a row of the GID table.
func (m *manager) addrAt(index int) (netip.Addr, bool) {
	for _, g := range m.gids() {
		if g.Index == index {
			return g.GID.Addr(), true
		}
	}
	return netip.Addr{}, false
}
