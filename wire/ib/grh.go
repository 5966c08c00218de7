// SPDX-License-Identifier: Apache-2.0

package ib

import "encoding/binary"

// GRHLen is the length of a global route header in bytes. A UD receive buffer starts with this many
// bytes for it.
const GRHLen = 40

// GRHNextHeader is NxtHdr of an InfiniBand transport packet (section 8.3).
const GRHNextHeader = 0x1b

// GRH is the global route header. It has the layout of an IPv6 header (section 8.3).
//
//	 0                   1                   2                   3
//	 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//	+-------+---------------+---------------------------------------+
//	| IPVer |    TClass     |              Flow label               |
//	+-------+---------------+-------+---------------+---------------+
//	|        Payload length         |    NxtHdr     |     HopLmt    |
//	+-------------------------------+---------------+---------------+
//	|                     SGID (16 bytes)                           |
//	+---------------------------------------------------------------+
//	|                     DGID (16 bytes)                           |
//	+---------------------------------------------------------------+
type GRH struct {
	IPVer     uint8  // 4 bits: 6
	TClass    uint8  // traffic class
	FlowLabel uint32 // 20 bits
	PayLen    uint16 // bytes after the GRH, including the ICRC but not the VCRC
	NxtHdr    uint8
	HopLmt    uint8
	SGID      GID
	DGID      GID
}

// Decode reads the header at the start of b. It returns false if b is too short.
func (h *GRH) Decode(b []byte) bool {
	if len(b) < GRHLen {
		return false
	}
	w := binary.BigEndian.Uint32(b)
	h.IPVer = uint8(w >> 28)
	h.TClass = uint8(w >> 20)
	h.FlowLabel = w & 0xfffff
	h.PayLen = binary.BigEndian.Uint16(b[4:])
	h.NxtHdr = b[6]
	h.HopLmt = b[7]
	h.SGID = GID(b[8:])
	h.DGID = GID(b[24:])
	return true
}

// Append appends the header to b.
func (h *GRH) Append(b []byte) []byte {
	b = binary.BigEndian.AppendUint32(b, uint32(h.IPVer)<<28|uint32(h.TClass)<<20|h.FlowLabel&0xfffff)
	b = binary.BigEndian.AppendUint16(b, h.PayLen)
	b = append(b, h.NxtHdr, h.HopLmt)
	b = append(b, h.SGID[:]...)
	return append(b, h.DGID[:]...)
}
