// SPDX-License-Identifier: Apache-2.0

package ib

import "hash/crc32"

// LRHLen is the length of InfiniBand's local route header in bytes (section
// 7.7).
const LRHLen = 8

// ICRCLocal returns the ICRC's state after the link header of an InfiniBand packet without a GRH.
// Its virtual lane, the top four bits, counts as ones (section 7.8.1). Continue with [ICRCHeader].
func ICRCLocal(lrh [LRHLen]byte) uint32 {
	lrh[0] |= 0xf0
	return crcIEEE(crcInit, lrh[:])
}

// ICRCGlobal returns the ICRC's state after the headers of an InfiniBand packet with a GRH. The
// whole LRH counts as ones, because routers replace it, and so do the GRH's traffic class, flow
// label and hop limit (section 7.8.1).
func ICRCGlobal(grh [GRHLen]byte) uint32 {
	grh[0] |= 0x0f
	grh[1], grh[2], grh[3] = 0xff, 0xff, 0xff
	grh[7] = 0xff
	return crcIEEE(stateAfterOnes, grh[:])
}

// crcInit is the state before the first byte, as hash/crc32 has it.
const crcInit = 0

// stateAfterOnes is the state after the eight bytes of ones that stand for the LRH.
var stateAfterOnes = crcIEEE(crcInit, []byte("\xff\xff\xff\xff\xff\xff\xff\xff"))

// crcIEEE is [crc32.Update] with the IEEE table, but without its assembly, to
// which a buffer on the stack would escape.
func crcIEEE(state uint32, b []byte) uint32 {
	v := ^state
	for _, c := range b {
		v = crc32.IEEETable[byte(v)^c] ^ v>>8
	}
	return ^v
}
