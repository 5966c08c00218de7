// SPDX-License-Identifier: Apache-2.0

package cm

import (
	"net/netip"
	"testing"
)

// A device's address takes the place of an unspecified one.
func TestChoose(t *testing.T) {
	addrs := []netip.Addr{}
	for _, a := range []string{"fe80::1", "10.254.7.1", "fd54::1", "10.254.8.1"} { // that this host does not have
		addrs = append(addrs, netip.MustParseAddr(a))
	}
	for _, c := range []struct{ unspecified, to, want string }{
		{"", "", "10.254.7.1"},
		{"0.0.0.0", "", "10.254.7.1"},
		{"", "10.254.7.2", "10.254.7.1"},
		{"", "fd54::2", "fd54::1"},
		{"", "fe80::2", "fe80::1"},
		{"0.0.0.0", "fd54::2", "fd54::1"},
	} {
		parse := func(s string) (a netip.Addr) { a, _ = netip.ParseAddr(s); return a }
		if got := choose(addrs, parse(c.unspecified), parse(c.to)); got.String() != c.want {
			t.Errorf("%q to reach %q: %v, want %s", c.unspecified, c.to, got, c.want)
		}
	}
	if got := choose(addrs[:1], netip.IPv4Unspecified(), addrs[1]); got != addrs[0] {
		t.Errorf("of a device with one address: %v", got)
	}
	if got := choose([]netip.Addr{addrs[0], addrs[2], netip.MustParseAddr("127.0.0.1")}, netip.Addr{},
		netip.MustParseAddr("127.0.0.1")); !got.IsLoopback() {
		t.Errorf("to reach this host: %v", got)
	}
}
