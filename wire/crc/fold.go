// SPDX-License-Identifier: Apache-2.0

//go:build (amd64 || arm64) && !purego

package crc

// A CRC is the message's residue mod P. So any block of the message may move forward by d bits if
// it is multiplied by x^d mod P, which is short: A·x^d + B and A·(x^d mod P) + B have the same
// residue. For 128 bits, in two halves H·x^64 + L, that takes two carry-less multiplications of 64
// bits, by x^(d+64) and x^d (docs/decisions/0007-crc.md).
//
// In a register the lowest bit is the highest power, so the product of two halves is one power too
// high in 128 bits: the constants are one power less.

// shift holds the constants that move a block of 128 bits by n bytes: x^(8n+63) and x^(8n-1) mod P,
// for the block's first and second half. They are in the upper half, because their lowest power is
// the highest bit.
type shift [2]uint64

// powers are x^0, x^1, … mod P in the form of hash/crc32: the top bit is the coefficient of x^0.
type powers []uint32

func powersOfX(p uint32, n int) powers {
	x := make(powers, n)
	x[0] = 1 << 31
	for i := 1; i < n; i++ {
		x[i] = x[i-1]>>1 ^ p&-(x[i-1]&1)
	}
	return x
}

// shift returns the constants for n bytes, at least one.
func (x powers) shift(n int) shift {
	return shift{uint64(x[8*n+63]) << 32, uint64(x[8*n-1]) << 32}
}
