// SPDX-License-Identifier: Apache-2.0

package verbs

import (
	"net/netip"
	"testing"

	"github.com/ramjet-rdma/ramjet/wire/ib"
)

// TestGRHAddresses finds the sender and the receiver of a datagram in front of it, in both layouts
// (IBTA A17.4.5.1).
func TestGRHAddresses(t *testing.T) {
	v4, v6 := netip.MustParseAddr("192.0.2.7"), netip.MustParseAddr("2001:db8::4")
	four := make([]byte, 40)
	four[20] = 0x45
	copy(four[32:], v4.AsSlice())
	copy(four[36:], []byte{192, 0, 2, 9})
	if from, to := grhAddresses(four); from.Addr() != v4 || to.Addr() != v4.Next().Next() {
		t.Errorf("IPv4: from %v to %v", from.Addr(), to.Addr())
	}
	grh := ib.GRH{IPVer: 6, SGID: ib.GIDFromAddr(v6), DGID: ib.GIDFromAddr(v4)}
	if from, to := grhAddresses(grh.Append(nil)); from.Addr() != v6 || to.Addr() != v4 {
		t.Errorf("IPv6: from %v to %v", from.Addr(), to.Addr())
	}
}
