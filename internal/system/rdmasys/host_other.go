// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package rdmasys

import (
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"strconv"
)

// noFiles is a file system that has nothing.
type noFiles struct{}

func (noFiles) Open(name string) (fs.File, error) {
	return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
}

// Host returns this machine as a source of facts: only addresses, as nothing else can be read here.
func Host() *Source { return &Source{Root: noFiles{}, Addrs: hostAddrs} }

// RouteTo asks the system how it would send to an address.
func RouteTo(peer netip.Addr) (Route, error) {
	peer = peer.Unmap()
	c, err := net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(netip.AddrPortFrom(peer, RoCEPort)))
	if err != nil {
		return Route{}, fmt.Errorf("there is no route to %v: %w", peer, err)
	}
	defer c.Close()
	r := Route{From: c.LocalAddr().(*net.UDPAddr).AddrPort().Addr().Unmap()}
	if i, err := strconv.Atoi(r.From.Zone()); err == nil { // some systems have the number there
		if n, err := net.InterfaceByIndex(i); err == nil {
			r.From = r.From.WithZone(n.Name)
		}
	}
	ifs, err := net.Interfaces()
	if err != nil {
		return r, nil
	}
	for _, i := range ifs {
		nets, err := i.Addrs()
		if err != nil {
			continue
		}
		for _, n := range nets {
			if p, err := netip.ParsePrefix(n.String()); err == nil && p.Addr().Unmap() == r.From.WithZone("") {
				r.NetDev, r.MTU = i.Name, i.MTU
			}
		}
	}
	return r, nil
}
