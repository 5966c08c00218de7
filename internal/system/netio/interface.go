// SPDX-License-Identifier: Apache-2.0

package netio

import (
	"fmt"
	"net"
	"net/netip"
)

// interfaceOf finds the network interface that carries a local address. All of 127.0.0.0/8 belongs
// to the loopback interface, though it lists only one address.
func interfaceOf(local netip.Addr) (*net.Interface, error) {
	if local.IsUnspecified() {
		return nil, fmt.Errorf("a socket on the wildcard address %v has no interface of its own", local)
	}
	interfaces, err := net.Interfaces()
	if err != nil {
		return nil, err
	}
	for i := range interfaces {
		addrs, err := interfaces[i].Addrs()
		if err != nil {
			return nil, err
		}
		for _, a := range addrs {
			prefix, err := netip.ParsePrefix(a.String())
			if err != nil {
				continue
			}
			bare := local.WithZone("")
			if prefix.Addr() == bare && (local.Zone() == "" || local.Zone() == interfaces[i].Name) {
				return &interfaces[i], nil
			}
			if bare.IsLoopback() && prefix.Contains(bare) {
				return &interfaces[i], nil
			}
		}
	}
	return nil, fmt.Errorf("no interface carries %v", local)
}
