// SPDX-License-Identifier: Apache-2.0

package verbs

import (
	"net/netip"
	"testing"

	"github.com/ramjet-rdma/ramjet/wire/ib"
)

// The row to connect from is of RoCE v2, and of the address that leads to the peer.
func TestBestGID(t *testing.T) {
	table := func(types []GIDType, addrs ...string) (rows []GIDEntry) {
		for _, a := range addrs {
			for _, t := range types {
				rows = append(rows, GIDEntry{Index: len(rows), GID: ib.GIDFromAddr(netip.MustParseAddr(a)), Type: t})
			}
		}
		return rows
	}
	both := []GIDType{GIDRoCEv1, GIDRoCEv2}
	nic := table(both, "fe80::7", "192.0.2.7", "2001:db8::7", "198.51.100.7") // as mlx5 has them
	for _, c := range []struct {
		what  string
		rows  []GIDEntry
		local string
		want  int
	}{
		{"no address is known", nic, "", 3},
		{"IPv4", nic, "192.0.2.7", 3},
		{"another of IPv4", nic, "198.51.100.7", 7},
		{"IPv6", nic, "2001:db8::7", 5},
		{"a link's own", nic, "fe80::7%eth0", 1},
		{"mapped", nic, "::ffff:192.0.2.7", 3},
		{"none of its own, of the family", nic, "2001:db8::8", 5},
		{"none of its own, IPv4", nic, "127.0.0.1", 3},
		{"RoCE v1 alone", table(both[:1], "fe80::7", "192.0.2.7"), "192.0.2.7", 0},
		{"InfiniBand", table([]GIDType{GIDInfiniBand}, "fe80::7", "2001:db8::7"), "192.0.2.7", 0},
		{"iWARP", table([]GIDType{GIDiWARP}, "5254:0:2::"), "192.0.2.7", 0},
	} {
		var local netip.Addr
		if c.local != "" {
			local = netip.MustParseAddr(c.local)
		}
		if got := bestGID(c.rows, local); got.Index != c.want {
			t.Errorf("%s: row %d, want %d", c.what, got.Index, c.want)
		}
	}
}
