// SPDX-License-Identifier: Apache-2.0

package ib

import "encoding/binary"

// FlowControlLen is the length of a flow-control packet in bytes, with its LPCRC.
const FlowControlLen = 6

// FlowControlOp is the type of a flow-control packet (section 7.9.4).
type FlowControlOp uint8

const (
	FlowControlNormal FlowControlOp = 0 // sent in all other states
	FlowControlInit   FlowControlOp = 1 // sent while the port is in Initialize
)

// FlowControl is a flow-control packet, the only link packet there is (section 7.9.4). A link delimits
// it otherwise than data packets; where there are no delimiters, its length tells it apart.
//
//	 0                   1                   2                   3
//	 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//	+-------+-----------------------+-------+-----------------------+
//	|  Op   |        FCTBS          |  VL   |         FCCL          |
//	+-------+-----------------------+-------+-----------------------+
//	|            LPCRC              |
//	+-------------------------------+
//
// Both counts are of 64-byte blocks, modulo 4096.
type FlowControl struct {
	Op    FlowControlOp // 4 bits
	FCTBS uint16        // 12 bits: blocks that the sender has sent on the lane since the link came up
	VL    uint8         // 4 bits
	FCCL  uint16        // 12 bits: the count up to which the sender takes blocks on the lane
}

// Decode reads the packet b. It returns false if b has another length or its LPCRC is wrong.
func (f *FlowControl) Decode(b []byte) bool {
	if len(b) != FlowControlLen {
		return false
	}
	if _, ok := CheckVCRC(b); !ok {
		return false
	}
	w := binary.BigEndian.Uint32(b)
	*f = FlowControl{Op: FlowControlOp(w >> 28), FCTBS: uint16(w>>16) & 0xfff, VL: uint8(w>>12) & 15,
		FCCL: uint16(w) & 0xfff}
	return true
}

// Append appends the packet with its LPCRC to b.
func (f FlowControl) Append(b []byte) []byte {
	start := len(b)
	b = binary.BigEndian.AppendUint32(b, uint32(f.Op&15)<<28|uint32(f.FCTBS&0xfff)<<16|uint32(f.VL&15)<<12|
		uint32(f.FCCL&0xfff))
	return binary.LittleEndian.AppendUint16(b, VCRC(b[start:]))
}
