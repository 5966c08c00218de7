// SPDX-License-Identifier: Apache-2.0

package ib

import "encoding/binary"

// Linux rxe (seen in 6.12) computes the ICRC of a FLUSH in a way of its own. Where other packets
// have their payload, it includes the packet from its BTH on a second time, with nothing masked. It
// drops a FLUSH with the specification's ICRC, so a peer of rxe has to know both.
// that wants to be understood by it has to know both.

// ICRCFlushOfRxe returns the state of rxe's ICRC for a FLUSH, given the specification's state after
// the packet.
func ICRCFlushOfRxe(state uint32, packet []byte) uint32 { return ICRCUpdate(state, packet) }

// VerifyFlushOfRxe is [PseudoHeader.Verify] for a FLUSH sent by rxe.
func (f *PseudoHeader) VerifyFlushOfRxe(transport []byte, predictedID uint16) (id uint16, how Verified) {
	n := len(transport) - ICRCLen
	if n != RCFlush.Info().HeaderLen || Opcode(transport[0]) != RCFlush {
		return 0, NotVerified
	}
	state := ICRCHeader(f.Seed(udpLen+len(transport), predictedID), transport[:n])
	state = ICRCFlushOfRxe(state, transport[:n])
	return f.judge(state^binary.LittleEndian.Uint32(transport[n:]), 2*n, predictedID)
}
