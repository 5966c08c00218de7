// SPDX-License-Identifier: Apache-2.0

package kinds

import (
	crand "crypto/rand"
	"fmt"
	"net"
	"net/netip"
	"runtime"

	"github.com/ramjet-rdma/ramjet/wire/ib"
)

// ipNaming names devices by local IP addresses: 192.0.2.7, fd09::1, fe80::1%eth0.
type ipNaming struct{}

// Local returns the addresses of all interfaces.
func (ipNaming) Local() ([]Local, error) {
	ifs, err := net.Interfaces()
	if err != nil {
		return nil, fmt.Errorf("listing network interfaces: %w", err)
	}
	var found []Local
	for _, i := range ifs {
		nets, err := i.Addrs()
		if err != nil {
			return nil, fmt.Errorf("listing the addresses of %s: %w", i.Name, err)
		}
		for _, n := range nets {
			p, err := netip.ParsePrefix(n.String())
			if err != nil {
				continue // no IP address
			}
			addr := p.Addr().Unmap()
			if addr.Is6() && addr.IsLinkLocalUnicast() {
				addr = addr.WithZone(i.Name)
			}
			found = append(found, Local{Address: addr.String(), NetDev: i.Name, LinkMTU: i.MTU,
				Up: i.Flags&net.FlagUp != 0, GID: ib.GIDFromAddr(addr)})
		}
	}
	return found, nil
}

// Spare returns IPv4 addresses. On Linux all of 127.0.0.0/8 is local. Each call takes a network of
// its own, so that runs do not conflict.
func (ipNaming) Spare(least int) (addresses []string, err error) {
	if runtime.GOOS == "linux" {
		var b [2]byte
		crand.Read(b[:])
		for host := range byte(max(least, 20)) {
			addresses = append(addresses, netip.AddrFrom4([4]byte{127, 64 + b[0]%128, b[1], 1 + host}).String())
		}
		return addresses, nil
	}
	nets, err := net.InterfaceAddrs()
	if err != nil {
		return nil, err
	}
	for _, n := range nets {
		if p, err := netip.ParsePrefix(n.String()); err == nil && p.Addr().Unmap().Is4() {
			addresses = append(addresses, p.Addr().Unmap().String())
		}
	}
	if len(addresses) < least {
		return nil, fmt.Errorf("%d IPv4 addresses of this host are needed and there are %d: add one to the loopback interface, such as 127.0.0.2",
			least, len(addresses))
	}
	return addresses, nil
}

// At returns the address itself.
func (ipNaming) At(ip string) string { return ip }

// IP parses the address.
func (ipNaming) IP(address string) (netip.Addr, bool) {
	a, err := netip.ParseAddr(address)
	return a.Unmap(), err == nil
}
