// SPDX-License-Identifier: Apache-2.0

// Package crc computes the CRCs of RDMA, faster than hash/crc32 where the processor can: the
// CRC-32 of InfiniBand's packets and the CRC32C of iWARP's FPDUs, and the variant CRC of InfiniBand's links.
package crc

import (
	"hash/crc32"
	"unsafe"
)

var castagnoliTable = crc32.MakeTable(crc32.Castagnoli)

// CopyCastagnoli copies src to dst, which has the same length, and continues a CRC32C over the stored
// bytes: the CRC fits the copy even if src changes meanwhile. dst may be src. It panics if the
// memory overlaps otherwise or the lengths differ.
func CopyCastagnoli(state uint32, dst, src []byte) uint32 {
	checkCopy(dst, src)
	return copyCastagnoli(state, dst, src)
}

// CopyIEEE is [CopyCastagnoli] with the CRC-32.
func CopyIEEE(state uint32, dst, src []byte) uint32 {
	checkCopy(dst, src)
	return copyIEEE(state, dst, src)
}

// checkCopy panics if src cannot be copied to dst in one pass.
func checkCopy(dst, src []byte) {
	if len(dst) != len(src) {
		panic("crc: a copy between slices of different lengths")
	}
	d := uintptr(unsafe.Pointer(unsafe.SliceData(dst))) - uintptr(unsafe.Pointer(unsafe.SliceData(src)))
	if d != 0 && len(src) > 0 && (d < uintptr(len(src)) || -d < uintptr(len(src))) {
		panic("crc: a copy between slices that overlap")
	}
}
