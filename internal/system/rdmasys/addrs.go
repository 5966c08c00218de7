// SPDX-License-Identifier: Apache-2.0

package rdmasys

import (
	"net"
	"net/netip"
)

// hostAddrs returns the addresses of this machine's interfaces.
func hostAddrs() (map[string][]netip.Prefix, error) {
	ifs, err := net.Interfaces()
	if err != nil {
		return nil, err
	}
	found := make(map[string][]netip.Prefix)
	for _, i := range ifs {
		nets, err := i.Addrs()
		if err != nil {
			continue // it is gone
		}
		for _, n := range nets {
			if p, err := netip.ParsePrefix(n.String()); err == nil {
				found[i.Name] = append(found[i.Name], netip.PrefixFrom(p.Addr().Unmap(), p.Bits()))
			}
		}
	}
	return found, nil
}
