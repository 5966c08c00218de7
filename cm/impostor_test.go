// SPDX-License-Identifier: Apache-2.0

package cm

import (
	"net/netip"
	"testing"

	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/wire/ib"
	"github.com/ramjet-rdma/ramjet/wire/mad"
)

// Whose address a request has, in all forms in which an address comes.
func TestAddressOfRequest(t *testing.T) {
	for _, c := range []struct {
		named, from string
		want        mad.Reason
	}{
		{"192.0.2.7", "192.0.2.7", 0},
		{"192.0.2.7", "192.0.2.8", mad.RejPrimaryGID},
		{"127.0.0.1", "127.0.0.2", mad.RejPrimaryGID},
		{"::ffff:192.0.2.7", "192.0.2.7", 0},
		{"fd09::1", "fd09::1", 0},
		{"fd09::1", "fd09::2", mad.RejPrimaryGID},
		{"fe80::1", "fe80::1%eth0", 0},
		{"fe80::1%7", "fe80::1%eth0", 0},
		{"fe80::1", "fe80::2%eth0", mad.RejPrimaryGID},
		{"::1", "::1", 0},
		{"0.0.0.0", "192.0.2.7", mad.RejPrimaryGID},
		{"::", "fd09::1", mad.RejPrimaryGID},
		{"192.0.2.7", "fd09::1", mad.RejPrimaryGID},
	} {
		named := netip.MustParseAddr(c.named)
		h := mad.NewIPAddress(netip.AddrPortFrom(named, 1), named)
		from := verbs.AHAttr{DGID: ib.GIDFromAddr(netip.MustParseAddr(c.from))}
		if _, got := new(ibProtocol).peerOf(&h, &from); got != c.want {
			t.Errorf("%s from %s: %v, want %v", c.named, c.from, got, c.want)
		}
	}
	// IPv4 in the form of IPv6, from a peer that puts it so.
	h := mad.IPAddress{IPVersion: 6, Src: netip.MustParseAddr("192.0.2.7").As16()}
	from := verbs.AHAttr{DGID: ib.GIDFromAddr(netip.MustParseAddr("192.0.2.7"))}
	if _, got := new(ibProtocol).peerOf(&h, &from); got != 0 {
		t.Errorf("a mapped address: %v", got)
	}
	h.IPVersion = 5
	if _, got := new(ibProtocol).peerOf(&h, &from); got != mad.RejUnsupportedRequest {
		t.Errorf("IP version 5: %v", got)
	}
}
