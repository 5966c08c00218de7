// SPDX-License-Identifier: Apache-2.0

package kinds

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"

	"github.com/ramjet-rdma/ramjet/roce1"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// linkNaming names devices by Ethernet interfaces: eth0, or eth0.100 for a VLAN of it.
type linkNaming struct{}

// Local returns the Ethernet interfaces that are up, unless this process may not open any.
func (linkNaming) Local() ([]Local, error) {
	if roce1.Permitted() != nil {
		return nil, nil
	}
	ifs, err := net.Interfaces()
	if err != nil {
		return nil, fmt.Errorf("listing network interfaces: %w", err)
	}
	var found []Local
	for _, i := range ifs {
		if len(i.HardwareAddr) != 6 || i.Flags&net.FlagLoopback != 0 || i.Flags&net.FlagUp == 0 {
			continue
		}
		l := Local{Address: i.Name, NetDev: i.Name, LinkMTU: i.MTU, Up: i.Flags&net.FlagRunning != 0,
			GID: verbs.GID{0xfe, 0x80}}
		guid, err := roce1.GUID(i.Name)
		if err != nil {
			continue // it is gone
		}
		binary.BigEndian.PutUint64(l.GID[8:], guid)
		found = append(found, l)
	}
	return found, nil
}

// errNoPair says how to get two interfaces that reach each other.
var errNoPair = errors.New(
	"two Ethernet interfaces of this host that are each other's peers are needed, and there are none: " +
		"`ip link add left type veth peer name right`, `ip link set left up` and `ip link set right up` make a pair")

// Spare returns the two interfaces of a virtual cable whose ends are both here: others may not reach
// each other.
func (linkNaming) Spare(least int) ([]string, error) {
	if err := roce1.Permitted(); err != nil {
		return nil, err
	}
	a, b, ok, err := roce1.Pair()
	if err != nil {
		return nil, err
	}
	if !ok || least > 2 {
		return nil, errNoPair
	}
	return []string{a, b}, nil
}

// At returns the interface that has an IP address, or the address if none has.
func (linkNaming) At(ip string) string {
	addr, err := netip.ParseAddr(ip)
	if err != nil {
		return ip
	}
	if zone := addr.Zone(); zone != "" {
		if n, err := strconv.Atoi(zone); err == nil {
			if i, err := net.InterfaceByIndex(n); err == nil {
				return i.Name
			}
		}
		return zone
	}
	ifs, err := net.Interfaces()
	if err != nil {
		return ip
	}
	for _, i := range ifs {
		for _, a := range addrsOf(&i) {
			if a == addr.Unmap() {
				return i.Name
			}
		}
	}
	return ip
}

// IP returns an address of the interface, an IPv4 address if there is one. A link-local address is
// none that other hosts can use.
func (linkNaming) IP(address string) (best netip.Addr, ok bool) {
	i, err := net.InterfaceByName(address)
	if err != nil {
		return netip.Addr{}, false
	}
	for _, a := range addrsOf(i) {
		if !a.IsLinkLocalUnicast() && (!ok || !best.Is4() && a.Is4()) {
			best, ok = a, true
		}
	}
	return best, ok
}

func addrsOf(i *net.Interface) (addrs []netip.Addr) {
	nets, err := i.Addrs()
	if err != nil {
		return nil
	}
	for _, n := range nets {
		if p, err := netip.ParsePrefix(n.String()); err == nil {
			addrs = append(addrs, p.Addr().Unmap())
		}
	}
	return addrs
}
