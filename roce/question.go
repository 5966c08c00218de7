// SPDX-License-Identifier: Apache-2.0

package roce

import (
	"net/netip"

	"github.com/ramjet-rdma/ramjet/wire/ib"
)

// question is a packet that every RoCEv2 receiver drops: it is for queue pair 0, which belongs to
// subnet management and does not exist over Ethernet (annex A17). It has all headers nevertheless.
// When Linux rxe (6.12) drops a packet shorter than a BTH, it looks for the queue pair in memory
// that it has not written, and the host crashes.
//
// The ICRC is correct but for the IPv4 identification, which nobody checks.
func question(from, to netip.AddrPort) []byte {
	p := ib.Packet{BTH: ib.BTH{Opcode: ib.UDSendOnly, PKey: ib.DefaultPKey, DestQP: ib.QP0}}
	b := p.Append(nil)
	pseudo := ib.NewPseudoHeader(from, to, true)
	return ib.AppendICRC(b, 0, pseudo.Seed(8+len(b)+ib.ICRCLen, 0))
}
