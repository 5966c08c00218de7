// SPDX-License-Identifier: Apache-2.0

package ib

import "encoding/binary"

// LNH is the link next header: the kind of header behind the LRH (section 7.7.5).
type LNH uint8

const (
	LNHRaw    LNH = 0 // raw packet, with an ethertype
	LNHIPv6   LNH = 1 // raw packet, with an IPv6 header
	LNHLocal  LNH = 2 // transport packet without a GRH
	LNHGlobal LNH = 3 // transport packet with a GRH
)

// VCRCLen is the length of the variant CRC behind every packet on a link (section 7.8.2).
const VCRCLen = 2

// MaxPacket is the length of the longest packet in bytes from LRH to ICRC: payload of the largest MTU
// and 124 bytes around it (section 7.7.8).
const MaxPacket = 4096 + 124

// LRH is the local route header, the first header of every packet on an InfiniBand link (section 7.7).
//
//	 0                   1                   2                   3
//	 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//	+-------+-------+-------+---+---+-------------------------------+
//	|  VL   | LVer  |  SL   |Rsv|LNH|             DLID              |
//	+-------+-------+-------+---+---+-------------------------------+
//	|  Resv5  |       PktLen        |             SLID              |
//	+---------+---------------------+-------------------------------+
type LRH struct {
	VL     uint8 // 4 bits: virtual lane; switches change it
	LVer   uint8 // 4 bits: link version, 0
	SL     uint8 // 4 bits: service level
	Resv2  uint8 // 2 bits
	LNH    LNH   // 2 bits
	DLID   uint16
	Resv5  uint8  // 5 bits
	PktLen uint16 // 11 bits: 4-byte words from the LRH to the ICRC, both included
	SLID   uint16
}

// Decode reads the header at the start of b. It returns false if b is shorter than [LRHLen].
func (h *LRH) Decode(b []byte) bool {
	if len(b) < LRHLen {
		return false
	}
	w := binary.BigEndian.Uint64(b)
	h.VL = uint8(w >> 60)
	h.LVer = uint8(w>>56) & 15
	h.SL = uint8(w>>52) & 15
	h.Resv2 = uint8(w>>50) & 3
	h.LNH = LNH(w>>48) & 3
	h.DLID = uint16(w >> 32)
	h.Resv5 = uint8(w>>27) & 31
	h.PktLen = uint16(w>>16) & 0x7ff
	h.SLID = uint16(w)
	return true
}

// Append appends the header to b. Bits beyond a field's width are dropped.
func (h LRH) Append(b []byte) []byte {
	return binary.BigEndian.AppendUint64(b, uint64(h.VL&15)<<60|uint64(h.LVer&15)<<56|
		uint64(h.SL&15)<<52|uint64(h.Resv2&3)<<50|uint64(h.LNH&3)<<48|uint64(h.DLID)<<32|
		uint64(h.Resv5&31)<<27|uint64(h.PktLen&0x7ff)<<16|uint64(h.SLID))
}
