// SPDX-License-Identifier: Apache-2.0

package ib

import (
	"net/netip"
	"testing"
)

func TestFlushOfRxe(t *testing.T) {
	flow := NewPseudoHeader(netip.MustParseAddrPort("10.9.0.2:50000"), netip.MustParseAddrPort("10.9.0.1:4791"), true)
	p := Packet{BTH: BTH{Opcode: RCFlush, PKey: DefaultPKey, DestQP: 0x123456, AckReq: true, PSN: 77},
		FETH: FETH{Placement: PlacementGlobal}, RETH: RETH{VA: 1 << 40, RKey: 0xabcdef, DMALen: 4096}}
	head := p.Append(nil)
	const id = 4711
	seed := flow.Seed(udpLen+len(head)+ICRCLen, id)
	frame := ICRCFinish(head[:len(head):len(head)], ICRCFlushOfRxe(ICRCHeader(seed, head), head))
	for _, c := range []struct {
		predicted uint16
		want      Verified
	}{{id, VerifiedWhole}, {0, VerifiedSolved}} {
		if got, how := flow.VerifyFlushOfRxe(frame, c.predicted); got != id || how != c.want {
			t.Errorf("predicted %d: got id %d, %v", c.predicted, got, how)
		}
	}
	if _, how := flow.Verify(frame, id); how == VerifiedWhole {
		t.Error("rxe's form passes as the specification's")
	}
	frame[20] ^= 1
	if _, how := flow.VerifyFlushOfRxe(frame, id); how == VerifiedWhole {
		t.Error("a changed frame passes")
	}
	other := AppendICRC(append([]byte(nil), head...), 0, seed)
	if _, how := flow.VerifyFlushOfRxe(other, id); how == VerifiedWhole {
		t.Error("the specification's form passes as rxe's")
	}
}
