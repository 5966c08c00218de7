// SPDX-License-Identifier: Apache-2.0

//go:build !purego

package crc

import (
	"hash/crc32"
	"unsafe"
)

// foldTable holds the constants by which the assembly multiplies (fold.go).
type foldTable struct {
	// lanes move the halves of 512 bits to the end of the message and multiply by x^32, as a
	// CRC does, which leaves 96 bits: x^(128i+95) and x^(128i+31), i from 3 to 0.
	lanes [8]uint64
	// by shifts a block by n bytes, from 1 to 63: the part of a message beyond whole blocks.
	by                        [64]shift
	by64, by128, by192, by256 shift
	barrett                   [2]uint64 // the quotient x^95 / P, and P with its x^32
}

func newFoldTable(p uint32) *foldTable {
	x := powersOfX(p, 8*256+64)
	t := &foldTable{
		by64: x.shift(64), by128: x.shift(128), by192: x.shift(192), by256: x.shift(256),
		barrett: [2]uint64{quotient(p, 95), uint64(p)<<1 | 1},
	}
	for i := range 4 {
		t.lanes[2*i], t.lanes[2*i+1] = uint64(x[128*(3-i)+95]), uint64(x[128*(3-i)+31])
	}
	for n := 1; n < len(t.by); n++ {
		t.by[n] = x.shift(n)
	}
	return t
}

// quotient returns x^n / P for n up to 95; the top bit is the coefficient of x^0.
func quotient(p uint32, n int) (q uint64) {
	rest := uint32(1 << 31) // x^0, as the highest power comes first
	for i := n - 1; i >= 0; i-- {
		if rest&1 != 0 {
			q |= 1 << (63 - i)
			rest = rest>>1 ^ p
		} else {
			rest >>= 1
		}
	}
	return q
}

var ieee, castagnoli = newFoldTable(crc32.IEEE), newFoldTable(crc32.Castagnoli)

// firstBytes has, from byte 64-n on, a mask of 64 bytes that selects the first n.
//
//lint:ignore U1000 fold256_amd64.s has it
var firstBytes = func() (m [128]byte) {
	for i := range 64 {
		m[i] = 0xff
	}
	return m
}()

// foldMin is the minimum length for the functions in assembly.
const foldMin = 64

// polyVariant is x^16 + x^12 + x^3 + x + 1, times x^16, as hash/crc32 has its polynomials.
const polyVariant = 0xd008

// fold512 and fold256 continue a CRC over at least foldMin bytes. The processor must have that
// width. The copying functions store the read bytes at dst too, and read nothing from there.
//
//go:noescape
func fold512(table *foldTable, state uint32, data []byte) uint32

//go:noescape
func copyFold512(table *foldTable, state uint32, dst *byte, src []byte) uint32

//go:noescape
func fold256(table *foldTable, state uint32, data []byte) uint32

//go:noescape
func copyFold256(table *foldTable, state uint32, dst *byte, src []byte) uint32

// UpdateIEEE is [crc32.Update] with the IEEE table.
func UpdateIEEE(state uint32, data []byte) uint32 {
	if len(data) >= foldMin {
		switch processor {
		case width512:
			return fold512(ieee, state, data)
		case width256:
			return fold256(ieee, state, data)
		}
	}
	return crc32.Update(state, crc32.IEEETable, data)
}

// UpdateCastagnoli is [crc32.Update] with the Castagnoli table.
func UpdateCastagnoli(state uint32, data []byte) uint32 {
	if len(data) >= foldMin {
		switch processor {
		case width512:
			return fold512(castagnoli, state, data)
		case width256:
			return fold256(castagnoli, state, data)
		}
	}
	return crc32.Update(state, castagnoliTable, data)
}

// variant is for InfiniBand's variant CRC, of 16 bits. With x^16·P in place of P, which has 32 bits, all residues are
// x^16 times the residues of P: their lower 16 bits, the high powers, are the CRC.
var variant = newFoldTable(polyVariant)

// Variant returns InfiniBand's variant CRC of data, inverted at the end (section 7.8.2). It returns false if the data
// are few, or the processor is not faster than tables.
func Variant(data []byte) (uint16, bool) {
	const start = ^uint32(0xffff) // 16 ones, inverted
	if len(data) < foldMin {
		return 0, false
	}
	switch processor {
	case width512:
		return uint16(fold512(variant, start, data)), true
	case width256:
		return uint16(fold256(variant, start, data)), true
	}
	return 0, false
}

// copyCastagnoli is CopyCastagnoli after its checks.
func copyCastagnoli(state uint32, dst, src []byte) uint32 {
	return copyUpdate(castagnoli, castagnoliTable, state, dst, src)
}

// copyIEEE is CopyIEEE after its checks.
func copyIEEE(state uint32, dst, src []byte) uint32 {
	return copyUpdate(ieee, crc32.IEEETable, state, dst, src)
}

func copyUpdate(table *foldTable, std *crc32.Table, state uint32, dst, src []byte) uint32 {
	if len(src) >= foldMin {
		switch processor {
		case width512:
			return copyFold512(table, state, unsafe.SliceData(dst), src)
		case width256:
			return copyFold256(table, state, unsafe.SliceData(dst), src)
		}
	}
	copy(dst, src)
	return crc32.Update(state, std, dst)
}
