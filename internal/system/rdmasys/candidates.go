// SPDX-License-Identifier: Apache-2.0

package rdmasys

import (
	"encoding/hex"
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// Route is how the system would send to an address.
type Route struct {
	From    netip.Addr `json:"from"`             // the source address
	NetDev  string     `json:"netdev"`           // the interface
	Gateway netip.Addr `json:"gateway,omitzero"` // zero: the peer is on the link
	// of the route, or of the interface if the route has none; 0: not known
	MTU   int  `json:"mtu_bytes"`
	Local bool `json:"local,omitempty"` // the address is this host's
}

// Candidate is a port of an RDMA device by which an address can be reached.
type Candidate struct {
	Device   string
	Port     int
	GID      int // the index of the GID to use
	Hardware bool
	Reason   string // why this device, and why this GID
}

// Unusable is a device that a route concerns, but that cannot be used.
type Unusable struct {
	Device string
	Port   int
	Reason string
}

// Candidates returns the devices that can reach the destination of a route, hardware first, and the devices of its
// interface that cannot. It goes from the route's source address and interface to the device:
//
//   - RoCE: the GID table has that address as a GID of type RoCE v2, of that interface, and the index to
//     use is this row's: the table has the same address for RoCE v1 too, and addresses of the other family.
//   - iWARP: the device is on that interface.
//   - InfiniBand: the interface is IPoIB, whose hardware address ends with the GID of the port.
//
// An address of this host is reached by the device that has it, not by the loopback interface.
func (s *System) Candidates(r Route) (ways []Candidate, not []Unusable) {
	netdev := r.NetDev
	if i := s.Interface(netdev); r.Local || i != nil && i.Type == TypeLoopback {
		netdev = s.ownerOf(r.From)
	}
	if netdev == "" {
		return nil, nil
	}
	from := r.From.WithZone("")
	for i := range s.Devices {
		d := &s.Devices[i]
		for j := range d.Ports {
			p := &d.Ports[j]
			index, reason, problem := s.candidateOn(d, p, netdev, from)
			switch {
			case problem != "":
				not = append(not, Unusable{d.Name, p.Number, problem})
			case index < 0:
			case !p.Active():
				not = append(not, Unusable{d.Name, p.Number,
					fmt.Sprintf("%s, but its port %d is %s", reason, p.Number, p.State)})
			default:
				ways = append(ways, Candidate{d.Name, p.Number, index, d.Hardware, reason})
			}
		}
	}
	slices.SortStableFunc(ways, func(a, b Candidate) int {
		switch {
		case a.Hardware == b.Hardware:
			return 0
		case a.Hardware:
			return -1
		}
		return 1
	})
	return ways, not
}

// candidateOn returns the index of the GID by which a port reaches the same hosts as the address from on an
// interface, and why. It is -1 if the route does not concern the port. problem says why a port of this
// interface cannot be used.
func (s *System) candidateOn(d *Device, p *Port, netdev string, from netip.Addr) (index int, reason, problem string) {
	switch {
	case d.IWARP():
		if p.NetDev != netdev {
			return -1, "", ""
		}
		return 0, "iWARP on " + netdev, ""
	case p.LinkLayer == "InfiniBand":
		if i, ok := s.ipoib(p, netdev); ok {
			return i, fmt.Sprintf("InfiniBand: %s is IPoIB on this port", netdev), ""
		}
		return -1, "", ""
	}
	other := ""
	for _, g := range p.GIDs {
		switch {
		case g.Addr != from || g.NetDev != "" && g.NetDev != netdev:
		case g.Type == RoCEv2:
			return g.Index, fmt.Sprintf("RoCE: GID %d is %v on %s, %s", g.Index, from, netdev, RoCEv2), ""
		default:
			other = g.Type
		}
	}
	switch {
	case other != "":
		return -1, "", fmt.Sprintf(
			"its GID of %v is of type %s only, which no router forwards and Ramjet's peers do not take", from, other)
	case p.NetDev == netdev:
		return -1, "", fmt.Sprintf("it is on %s, but its GID table has no %v", netdev, from)
	}
	return -1, "", ""
}

// ipoib returns the index of the port's GID that an interface's hardware address ends with: it has 20
// bytes, flags and a queue pair number before the GID (RFC 4391 section 9.1.1).
func (s *System) ipoib(p *Port, netdev string) (index int, ok bool) {
	i := s.Interface(netdev)
	if i == nil || i.Type != TypeInfiniBand {
		return 0, false
	}
	b, err := hex.DecodeString(strings.ReplaceAll(i.Address, ":", ""))
	if err != nil || len(b) != 20 {
		return 0, false
	}
	gid := netip.AddrFrom16([16]byte(b[4:])).Unmap()
	for _, g := range p.GIDs {
		if g.Addr == gid {
			return g.Index, true
		}
	}
	return 0, false
}

// ownerOf returns the interface that has an address, other than loopback if there is one.
func (s *System) ownerOf(a netip.Addr) string {
	if z := a.Zone(); z != "" {
		return z
	}
	owner := ""
	for i := range s.Interfaces {
		n := &s.Interfaces[i]
		has := slices.ContainsFunc(n.Addrs, func(p netip.Prefix) bool { return p.Addr().WithZone("") == a })
		if has && (owner == "" || n.Type != TypeLoopback) {
			owner = n.Name
		}
	}
	return owner
}
