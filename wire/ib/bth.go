// SPDX-License-Identifier: Apache-2.0

package ib

import "encoding/binary"

// BTHLen is the length of a base transport header in bytes.
const BTHLen = 12

// BTH is the base transport header, the first header of every transport packet
// (section 9.2).
//
//	 0                   1                   2                   3
//	 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//	+---------------+-+-+---+-------+-------------------------------+
//	|    OpCode     |S|M|Pad| TVer  |             P_Key             |
//	+-+-+-----------+-+-+---+-------+-------------------------------+
//	|F|B|   Resv6   |            Destination QP                     |
//	+-+-+-----------+-----------------------------------------------+
//	|A|    Resv7    |                   PSN                         |
//	+-+-------------+-----------------------------------------------+
//
// The second word's first byte (F, B, Resv6) may change on the path, so the ICRC takes it as ones.
type BTH struct {
	Opcode         Opcode
	SolicitedEvent bool  // S: the responder is to raise a solicited event
	MigReq         bool  // M: migration state, section 17.2.8
	PadCount       uint8 // 0 to 3 bytes after the payload, up to a multiple of four
	TVer           uint8 // 4 bits: transport version, 0
	PKey           PKey
	FECN           bool  // forward explicit congestion notification
	BECN           bool  // backward explicit congestion notification
	Resv6          uint8 // 6 bits
	DestQP         QPN
	AckReq         bool  // A: the requester wants an acknowledgement
	Resv7          uint8 // 7 bits
	PSN            PSN
}

// Decode reads the header at the start of b. It returns false if b is shorter than [BTHLen].
func (h *BTH) Decode(b []byte) bool {
	if len(b) < BTHLen {
		return false
	}
	w0 := binary.BigEndian.Uint64(b)
	w1 := binary.BigEndian.Uint32(b[8:])
	h.Opcode = Opcode(w0 >> 56)
	h.SolicitedEvent = w0&(1<<55) != 0
	h.MigReq = w0&(1<<54) != 0
	h.PadCount = uint8(w0>>52) & 3
	h.TVer = uint8(w0>>48) & 15
	h.PKey = PKey(w0 >> 32)
	h.FECN = w0&(1<<31) != 0
	h.BECN = w0&(1<<30) != 0
	h.Resv6 = uint8(w0>>24) & 0x3f
	h.DestQP = QPN(w0) & 0xffffff
	h.AckReq = w1&(1<<31) != 0
	h.Resv7 = uint8(w1>>24) & 0x7f
	h.PSN = PSN(w1) & PSNMask
	return true
}

// Append appends the header to b. Bits beyond a field's width are dropped.
func (h BTH) Append(b []byte) []byte {
	return h.append(b)
}

func (h *BTH) append(b []byte) []byte {
	// The terms are paired so that the processor can work on them in parallel.
	w0 := ((uint64(h.Opcode)<<56 | uint64(h.PKey)<<32) | (uint64(h.PadCount&3)<<52 | uint64(h.TVer&15)<<48)) |
		((bit(h.SolicitedEvent)<<55 | bit(h.MigReq)<<54) | (bit(h.FECN)<<31 | bit(h.BECN)<<30)) |
		(uint64(h.Resv6&0x3f)<<24 | uint64(h.DestQP&0xffffff))
	w1 := (uint32(bit(h.AckReq))<<31 | uint32(h.Resv7&0x7f)<<24) | uint32(h.PSN&PSNMask)
	return binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint64(b, w0), w1)
}

// bit is written so that the compiler turns it into a move without a branch.
func bit(v bool) uint64 {
	var n uint64
	if v {
		n = 1
	}
	return n
}

// PatchBTH sets the AckReq bit and the PSN of an encoded BTH.
func PatchBTH(b []byte, ackReq bool, psn PSN) {
	word := uint32(psn & PSNMask)
	if ackReq {
		word |= 1 << 31
	}
	binary.BigEndian.PutUint32(b[8:BTHLen], word)
}
