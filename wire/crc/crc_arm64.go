// SPDX-License-Identifier: Apache-2.0

//go:build !purego

package crc

import (
	"hash/crc32"

	"golang.org/x/sys/cpu"
)

// hash/crc32 is one chain of CRC32X, each of which waits for the one before: 8 bytes a cycle at best,
// and a third of that where the instruction takes three cycles. Here PMULL folds two thirds of the bytes
// while three chains of CRC32X take the rest, so that both units are busy. A run of k rounds is
//
//	96k bytes, which PMULL folds in six registers, 96 bytes a round
//	16k bytes, the first chain, 16 bytes a round
//	16k bytes, the second
//	16k bytes, the third
//
// and the CRCs of its four parts become one when each moves to the end of the run, which is a
// multiplication (docs/decisions/0007-crc.md).
const (
	roundBytes = 6*16 + 3*16
	maxRounds  = 64 // of a run

	// foldMin is the minimum length for folding: joining the parts has a cost.
	foldMin = 1024
)

// foldTable holds the constants by which the assembly multiplies (fold.go).
type foldTable struct {
	by16, by32, by48, by96 shift
	// to moves a CRC by 16n bytes: x^(128n-33), as the product of two numbers of 32 bits stands one
	// power too high in 64 bits, and CRC32X multiplies by x^32.
	to [3*maxRounds + 1]uint32
}

func newFoldTable(p uint32) *foldTable {
	x := powersOfX(p, 8*96+64)
	t := &foldTable{by16: x.shift(16), by32: x.shift(32), by48: x.shift(48), by96: x.shift(96)}
	t.to[1] = x[128-33]
	for n := 2; n < len(t.to); n++ {
		t.to[n] = product(p, t.to[n-1], x[128])
	}
	return t
}

// product returns a·b mod P.
func product(p, a, b uint32) (c uint32) {
	for ; a != 0; a <<= 1 {
		c ^= b & -(a >> 31)
		b = b>>1 ^ p&-(b&1)
	}
	return c
}

var ieee, castagnoli = newFoldTable(crc32.IEEE), newFoldTable(crc32.Castagnoli)

// processor reports whether the processor has both instructions.
var processor = cpu.ARM64.HasCRC32 && cpu.ARM64.HasPMULL

// foldIEEE and foldCastagnoli continue a CRC, which is not inverted, over a run of rounds at data.
//
//go:noescape
func foldIEEE(table *foldTable, state uint32, data *byte, rounds int) uint32

//go:noescape
func foldCastagnoli(table *foldTable, state uint32, data *byte, rounds int) uint32

// UpdateIEEE is [crc32.Update] with the IEEE table.
func UpdateIEEE(state uint32, data []byte) uint32 {
	return update(ieee, crc32.IEEETable, state, data)
}

// UpdateCastagnoli is [crc32.Update] with the Castagnoli table.
func UpdateCastagnoli(state uint32, data []byte) uint32 {
	return update(castagnoli, castagnoliTable, state, data)
}

func update(table *foldTable, std *crc32.Table, state uint32, data []byte) uint32 {
	if len(data) >= foldMin && processor {
		state = ^state
		for len(data) >= roundBytes {
			rounds := min(len(data)/roundBytes, maxRounds)
			if table == castagnoli {
				state = foldCastagnoli(table, state, &data[0], rounds)
			} else {
				state = foldIEEE(table, state, &data[0], rounds)
			}
			data = data[rounds*roundBytes:]
		}
		state = ^state
	}
	return crc32.Update(state, std, data)
}
