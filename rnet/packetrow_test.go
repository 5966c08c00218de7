// SPDX-License-Identifier: Apache-2.0

package rnet

import (
	"net/netip"
	"testing"

	"github.com/ramjet-rdma/ramjet/verbs"
)

// An adapter's table has the address of the link first, and each address once for each version of RoCE.
func TestRowOf(t *testing.T) {
	gid := func(a string) verbs.GID { return netip.MustParseAddr(a).As16() }
	table := []verbs.GIDEntry{
		{Index: 0, GID: gid("fe80::1"), Type: verbs.GIDRoCEv1}, {Index: 1, GID: gid("fe80::1"), Type: verbs.GIDRoCEv2},
		{Index: 2, GID: gid("192.0.2.7"), Type: verbs.GIDRoCEv1},
		{Index: 3, GID: gid("192.0.2.7"), Type: verbs.GIDRoCEv2},
	}
	for _, c := range []struct {
		host string
		rows []verbs.GIDEntry
		want int
	}{{"", table, 3}, {"192.0.2.7", table, 3}, {"fe80::1", table, 1}, {"", table[:1], 0}, {"", table[:3], 2},
		{"fe80:0:0:0::1", table, 1}, {"FE80::1%eth0", table, 1}, {"::ffff:192.0.2.7", table, 3},
		{"192.0.2.8", table, -1}, {"localhost", table, -1}, {"", nil, -1}} {
		got := -1
		if g, ok := rowOf(c.rows, c.host); ok {
			got = g.Index
		}
		if got != c.want {
			t.Errorf("%q of %d rows: %d, want %d", c.host, len(c.rows), got, c.want)
		}
	}
}
