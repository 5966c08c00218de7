// SPDX-License-Identifier: Apache-2.0

package ib

import (
	"encoding/binary"

	"github.com/ramjet-rdma/ramjet/wire/crc"
)

// polyVCRC is x^16 + x^12 + x^3 + x + 1 (0x100B), the lowest power in the highest bit (section 7.8.2).
const polyVCRC = 0xd008

// vcrcTables has in row k the contribution to the CRC of a byte with k bytes behind it.
var vcrcTables = func() (t [16][256]uint16) {
	for v := range t[0] {
		c := uint16(v)
		for range 8 {
			c = c>>1 ^ polyVCRC&-(c&1)
		}
		t[0][v] = c
	}
	for k := 1; k < len(t); k++ {
		for v, c := range t[k-1] {
			t[k][v] = c>>8 ^ t[0][c&0xff]
		}
	}
	return t
}()

// VCRC returns the variant CRC of b, a packet from its LRH to its ICRC (section 7.8.2). It is the CRC of
// link packets too (section 7.9.4). Like the ICRC it starts with ones, ends inverted, and is stored
// least significant byte first.
func VCRC(b []byte) uint16 {
	if c, ok := crc.Variant(b); ok {
		return c
	}
	c := ^uint16(0)
	t := &vcrcTables
	for len(b) >= 16 {
		v, w := binary.LittleEndian.Uint64(b), binary.LittleEndian.Uint64(b[8:])
		// The terms that depend on the CRC so far come last, so that the rest need not wait for it.
		rest := (t[13][byte(v>>16)] ^ t[12][byte(v>>24)]) ^ (t[11][byte(v>>32)] ^ t[10][byte(v>>40)]) ^
			((t[9][byte(v>>48)] ^ t[8][byte(v>>56)]) ^ (t[7][byte(w)] ^ t[6][byte(w>>8)])) ^
			((t[5][byte(w>>16)] ^ t[4][byte(w>>24)]) ^ (t[3][byte(w>>32)] ^ t[2][byte(w>>40)])) ^
			(t[1][byte(w>>48)] ^ t[0][byte(w>>56)])
		c ^= uint16(v)
		c = t[15][byte(c)] ^ t[14][c>>8] ^ rest
		b = b[16:]
	}
	for _, v := range b {
		c = c>>8 ^ t[0][byte(c)^v]
	}
	return ^c
}

// AppendVCRC appends the VCRC of b to it.
func AppendVCRC(b []byte) []byte { return binary.LittleEndian.AppendUint16(b, VCRC(b)) }

// CheckVCRC returns b without the VCRC at its end, and whether that is right.
func CheckVCRC(b []byte) ([]byte, bool) {
	if len(b) < VCRCLen {
		return nil, false
	}
	body := b[:len(b)-VCRCLen]
	return body, VCRC(body) == binary.LittleEndian.Uint16(b[len(body):])
}

// LocalICRC returns the ICRC of an InfiniBand packet without its ICRC, by its LRH with or without a GRH
// (section 7.8.1). It returns false if b is too short for its headers, or a raw packet, which has none.
func LocalICRC(b []byte) (uint32, bool) {
	if len(b) < LRHLen+BTHLen {
		return 0, false
	}
	switch LNH(b[1] & 3) {
	case LNHLocal:
		return ICRCHeader(ICRCLocal([LRHLen]byte(b)), b[LRHLen:]), true
	case LNHGlobal:
		if len(b) >= LRHLen+GRHLen+BTHLen {
			return ICRCHeader(ICRCGlobal([GRHLen]byte(b[LRHLen:])), b[LRHLen+GRHLen:]), true
		}
	}
	return 0, false
}
