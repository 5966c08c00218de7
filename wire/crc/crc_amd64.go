// SPDX-License-Identifier: Apache-2.0

//go:build !purego

package crc

import (
	"hash/crc32"
	"unsafe"
)

// A CRC is the message's residue mod P, so any block of the message may move forward by d
// bits if it is multiplied by x^d mod P, which is short: A·x^d + B and A·(x^d mod P) + B have
// one residue. 128 bits, in two halves H·x^64 + L, take two carry-less multiplications of
// 64 bits for that, by x^(d+64) and x^d; VPCLMULQDQ does four at once, hash/crc32 one
// (docs/decisions/0007-crc.md).
//
// In a register the lowest bit is the highest power, and then the product of two halves
// stands one power too high in 128 bits: the constants are one power less.

// foldTable is what the assembly multiplies by.
type foldTable struct {
	// lanes move the halves of 512 bits to the end of the message and multiply by x^32, as a
	// CRC does, which leaves 96 bits: x^(128i+95) and x^(128i+31), i from 3 to 0.
	lanes [8]uint64
	// These move a block by so many bytes: x^(8n+63) and x^(8n-1), in the upper half as
	// their lowest power is the highest bit.
	by64, by128, by192, by256 [2]uint64
	positions                 [64]byte  // 0, 1, 2, …
	barrett                   [2]uint64 // the quotient x^95 / P, and P with its x^32
}

var positions = [64]byte{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15,
	16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31,
	32, 33, 34, 35, 36, 37, 38, 39, 40, 41, 42, 43, 44, 45, 46, 47,
	48, 49, 50, 51, 52, 53, 54, 55, 56, 57, 58, 59, 60, 61, 62, 63}

var ieee = foldTable{
	lanes:     [8]uint64{0x1d9513d7, 0x3db1ecdc, 0xaf449247, 0xf1da05aa, 0x81256527, 0xae689191, 0xccaa009e, 0x00000001},
	by64:      [2]uint64{0x653d9822 << 32, 0xcad38e8f << 32},
	by128:     [2]uint64{0x7d657a10 << 32, 0x7406fa95 << 32},
	by192:     [2]uint64{0x67f79476 << 32, 0xc56d9496 << 32},
	by256:     [2]uint64{0x7cc8e1e7 << 32, 0x03f9f863 << 32},
	positions: positions,
	barrett:   [2]uint64{0xb4e5b025f7011641, 0x1db710641},
}

var castagnoli = foldTable{
	lanes:     [8]uint64{0x9e4addf8, 0x1c291d04, 0xddc0152b, 0x3da6d0cb, 0xba4fc28e, 0xf20c0dfe, 0x493c7d27, 0x00000001},
	by64:      [2]uint64{0x1c19243b << 32, 0x75bba45b << 32},
	by128:     [2]uint64{0x6577b245 << 32, 0x7417153f << 32},
	by192:     [2]uint64{0x7ccbbbf2 << 32, 0x31c94608 << 32},
	by256:     [2]uint64{0xe9a5d8be << 32, 0x1426a815 << 32},
	positions: positions,
	barrett:   [2]uint64{0x4869ec38dea713f1, 0x105ec76f1},
}

// lastBytes has, from byte n on, a mask of 64 bytes that takes the last n.
//
//lint:ignore U1000 fold256_amd64.s has it
var lastBytes = func() (m [128]byte) {
	for i := 64; i < len(m); i++ {
		m[i] = 0xff
	}
	return m
}()

// foldMin is the least that the functions in assembly take.
const foldMin = 64

// fold512 and fold256 continue a CRC over at least foldMin bytes; the processor has to be
// one of that width. The functions that copy store what they read at dst too, of which
// nothing is read.
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
			return fold512(&ieee, state, data)
		case width256:
			return fold256(&ieee, state, data)
		}
	}
	return crc32.Update(state, crc32.IEEETable, data)
}

// UpdateCastagnoli is [crc32.Update] with the Castagnoli table.
func UpdateCastagnoli(state uint32, data []byte) uint32 {
	if len(data) >= foldMin {
		switch processor {
		case width512:
			return fold512(&castagnoli, state, data)
		case width256:
			return fold256(&castagnoli, state, data)
		}
	}
	return crc32.Update(state, castagnoliTable, data)
}

// copyCastagnoli is CopyCastagnoli for slices that it has checked.
func copyCastagnoli(state uint32, dst, src []byte) uint32 {
	return copyUpdate(&castagnoli, castagnoliTable, state, dst, src)
}

// copyIEEE is CopyIEEE for slices that it has checked.
func copyIEEE(state uint32, dst, src []byte) uint32 {
	return copyUpdate(&ieee, crc32.IEEETable, state, dst, src)
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
