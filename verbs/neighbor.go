// SPDX-License-Identifier: Apache-2.0

package verbs

import "net/netip"

// NeighborDriver is a [Driver] of a fabric whose ports have LIDs and GIDs, and whose hosts have IP
// addresses besides. It knows which port has which address, as the neighbor table of an IP interface
// over InfiniBand does (RFC 4391). Paths to ports are the subnet administrator's business.
type NeighborDriver interface {
	// Addrs returns the IP addresses of a port of the device.
	Addrs(port int) []netip.Addr
	// Neighbor returns the GID of the port that has an IP address. It returns false if none is known.
	Neighbor(addr netip.Addr) (GID, bool)
}
