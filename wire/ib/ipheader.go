// SPDX-License-Identifier: Apache-2.0

package ib

import "encoding/binary"

// IPHeader holds the fields of a RoCEv2 packet's IP header.
type IPHeader struct {
	Src, Dst GID
	TOS, TTL uint8
	Length   int  // bytes of the transport packet, its ICRC included
	IPv4     bool // else IPv6
}

// AppendGRH appends the 40 bytes that stand before a received datagram in the place of a GRH: the IPv6
// header, or the IPv4 header in the last 20 of them (annex A17.4.5.1).
func (h *IPHeader) AppendGRH(b []byte) []byte {
	const udpLen, protoUDP = 8, 17
	if !h.IPv4 {
		g := GRH{IPVer: 6, TClass: h.TOS, PayLen: uint16(h.Length), NxtHdr: GRHNextHeader, HopLmt: h.TTL, SGID: h.Src,
			DGID: h.Dst}
		return g.Append(b)
	}
	b = append(b, make([]byte, 20)...)
	start := len(b)
	b = append(b, 0x45, h.TOS)
	b = binary.BigEndian.AppendUint16(b, uint16(20+udpLen+h.Length))
	b = append(b, 0, 0, 0x40, 0, h.TTL, protoUDP, 0, 0)
	b = append(b, h.Src[12:]...)
	b = append(b, h.Dst[12:]...)
	header := b[start:]
	var sum uint32 // the C library tells IPv4 from IPv6 by the header's checksum
	for i := 0; i < len(header); i += 2 {
		sum += uint32(binary.BigEndian.Uint16(header[i:]))
	}
	for sum>>16 != 0 {
		sum = sum>>16 + sum&0xffff
	}
	binary.BigEndian.PutUint16(header[10:], ^uint16(sum))
	return b
}
