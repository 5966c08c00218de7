// SPDX-License-Identifier: Apache-2.0

package ib_test

import (
	"fmt"
	"log"

	"github.com/ramjet-rdma/ramjet/wire/ib"
)

// An RDMA WRITE of three bytes: one becomes a packet, and is read again.
func ExamplePacket() {
	sent := ib.Packet{
		BTH:     ib.BTH{Opcode: ib.RCWriteOnly, PKey: 0xffff, DestQP: 0x11, AckReq: true, PSN: 7, PadCount: 1},
		RETH:    ib.RETH{VA: 0x7f6a1c000000, RKey: 0x1a2b, DMALen: 3},
		Payload: []byte("abc"),
	}
	b := sent.Append(nil)
	fmt.Println(len(b), "bytes without the ICRC")

	var p ib.Packet
	if err := p.Decode(b); err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%v to QP %v, PSN %v: %q to %#x, R_Key %#x\n", p.Opcode, p.DestQP, p.PSN, p.Payload, p.RETH.VA,
		uint32(p.RETH.RKey))
	// Output:
	// 32 bytes without the ICRC
	// RC RDMA Write Only to QP 17, PSN 7: "abc" to 0x7f6a1c000000, R_Key 0x1a2b
}
