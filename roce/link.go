// SPDX-License-Identifier: Apache-2.0

package roce

import (
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"

	"github.com/ramjet-rdma/ramjet/internal/system/linkwatch"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// link is the network interface that carries an address.
type link struct {
	name  string
	index int
	mtu   int   // bytes of an IP packet
	speed int64 // Mbit/s; 0: unknown
	mac   net.HardwareAddr
	up    bool // and has a carrier
}

// headers is the most that surrounds the payload of a RoCEv2 packet: IPv6, UDP, BTH, RETH, ICRC.
// Linux rxe reserves the same.
const headers = 40 + 8 + 12 + 16 + 4

// findLink finds the interface of a local address.
func findLink(addr netip.Addr) (link, error) {
	ifs, err := net.Interfaces()
	if err != nil {
		return link{}, fmt.Errorf("roce: listing network interfaces: %w", err)
	}
	for _, i := range ifs {
		nets, err := i.Addrs()
		if err != nil {
			continue
		}
		for _, n := range nets {
			p, err := netip.ParsePrefix(n.String())
			if err != nil {
				continue
			}
			a := p.Addr().Unmap()
			whole := a == addr.WithZone("")
			if addr.IsLinkLocalUnicast() && addr.Is6() {
				whole = whole && (addr.Zone() == "" || addr.Zone() == i.Name)
			}
			if whole || i.Flags&net.FlagLoopback != 0 && addr.Is4() && p.Masked().Contains(addr) {
				const up = net.FlagUp | net.FlagRunning
				return link{name: i.Name, index: i.Index, mtu: i.MTU, speed: linkwatch.Speed(i.Name),
					mac: i.HardwareAddr, up: i.Flags&up == up}, nil
			}
		}
	}
	advice := "`ramjet devices` lists those that can be opened"
	if addr.IsLoopback() { // as in a new network namespace
		advice = "the loopback interface is down: `ip link set lo up`, as root"
	}
	return link{}, fmt.Errorf("roce: %v is not an address of this host: %s", addr, advice)
}

// watch follows the link of an address, or any that the address moves to. A link-local address
// cannot move.
func (l *link) watch(addr netip.Addr) *linkwatch.Watch {
	index := 0
	if addr.Is6() && addr.IsLinkLocalUnicast() {
		index = l.index
	}
	return linkwatch.New(addr, index, l.up, l.mtu)
}

// pathMTU returns the largest path MTU on a link whose IP packets have mtu bytes.
func pathMTU(mtu int) verbs.MTU {
	m := verbs.MTU256
	for m < verbs.MTU4096 && (m+1).Bytes()+headers <= mtu {
		m++
	}
	return m
}

// guid returns the device's globally unique identifier: an EUI-64 made from the MAC address, or
// from the IP address if there is none.
func (l *link) guid(addr netip.Addr) uint64 {
	b := [8]byte{0x02, 0, 0xff, 0xfe}
	if len(l.mac) == 6 && binary.BigEndian.Uint32(l.mac) != 0 {
		copy(b[:3], l.mac[:3])
		b[0] ^= 2
		b[3], b[4] = 0xff, 0xfe
		copy(b[5:], l.mac[3:])
		return binary.BigEndian.Uint64(b[:])
	}
	a := addr.As16()
	copy(b[4:], a[12:])
	return binary.BigEndian.Uint64(b[:])
}
