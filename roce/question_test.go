// SPDX-License-Identifier: Apache-2.0

package roce

import (
	"net/netip"
	"testing"

	"github.com/ramjet-rdma/ramjet/wire/ib"
)

// TestQuestion holds that what asks whether somebody is there is a whole packet for a queue
// pair that nobody has: less of it crashes Linux rxe.
func TestQuestion(t *testing.T) {
	for _, addr := range []string{"127.0.0.1", "::1"} {
		from := netip.AddrPortFrom(netip.MustParseAddr(addr), 40000)
		to := netip.AddrPortFrom(from.Addr(), ib.UDPPort)
		b := question(from, to)
		var p ib.Packet
		if err := p.Decode(b[:len(b)-ib.ICRCLen]); err != nil {
			t.Fatal(err)
		}
		pseudo := ib.NewPseudoHeader(from, to, true)
		if _, how := pseudo.Verify(b, 0); p.DestQP != ib.QP0 || how != ib.VerifiedWhole {
			t.Errorf("%s: %+v, ICRC: %v", addr, p.BTH, how)
		}
	}
}
