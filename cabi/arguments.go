// SPDX-License-Identifier: Apache-2.0

//go:build cabi && linux

package main

import "unsafe"

// sliceOf returns n elements of a program's memory. It returns false for arguments that cannot be memory: NULL, a
// negative number, or an end beyond the address space. unsafe.Slice would panic, which ends the program.
func sliceOf[T any, N ~int | ~int32 | ~uint32 | ~uint64](p *T, n N) ([]T, bool) {
	if n == 0 {
		return unsafe.Slice(p, 0), true
	}
	var one T
	size := uint64(unsafe.Sizeof(one))
	if n < 0 || uint64(n) > maxAddress/size || !addressable(uintptr(unsafe.Pointer(p)), uint64(n)*size) {
		return nil, false
	}
	return unsafe.Slice(p, int(n)), true
}

// maxAddress is beyond the last address of a program: 57 bits with page tables of five levels.
const maxAddress = 1 << 57

// addressable reports whether a program can have such memory.
func addressable(addr uintptr, length uint64) bool {
	return length == 0 || addr != 0 && uint64(addr) < maxAddress && length <= maxAddress-uint64(addr)
}
