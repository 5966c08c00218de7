// SPDX-License-Identifier: Apache-2.0

package memory

import (
	"encoding/binary"
	"math/bits"
	"runtime/debug"
	"sync/atomic"
	"unsafe"
)

// Devices' accesses to memory have an order that a program on another processor sees (verbs.MR.WaitFor). Processors
// differ in the order that they keep by themselves. [Order] keeps all accesses before it before the accesses after it,
// but for a store and a later load, as amd64 does anyway. [Fence] keeps these, too.

// wordBytes is the length of a word: bytes in one word can be written as a whole.
const wordBytes = 8

// Put copies src to memory that programs and peers may read meanwhile. A reader that sees a byte of it sees all earlier
// writes. A copy of at most 8 bytes that crosses no multiple of 8 appears as a whole. dst is as long as src.
func Put(dst, src []byte) {
	Order()
	if n := len(src); n == 0 || n > wordBytes || !inWord(dst) {
		move(dst, src)
		return
	}
	putWord(unsafe.SliceData(dst), src)
}

// inWord reports whether b, which is not empty, crosses no multiple of 8.
func inWord(b []byte) bool {
	return uintptr(unsafe.Pointer(unsafe.SliceData(b)))%wordBytes+uintptr(len(b)) <= wordBytes
}

// putWord writes src, which has 1 to 8 bytes, within one word. A length that the processor cannot store at once is
// stored with the bytes beside it, unless these change meanwhile.
func putWord(dst *byte, src []byte) {
	at := unsafe.Pointer(dst)
	off := uintptr(at) % wordBytes
	switch n := len(src); {
	case n == 1:
		*dst = src[0]
	case n == 2 && off%2 == 0:
		*(*uint16)(at) = binary.NativeEndian.Uint16(src)
	case n == 4 && off%4 == 0:
		*(*uint32)(at) = binary.NativeEndian.Uint32(src)
	case n == 8 && bits.UintSize == 64:
		*(*uint64)(at) = binary.NativeEndian.Uint64(src)
	default:
		word := (*uint64)(unsafe.Add(at, -int(off)))
		for {
			old := atomic.LoadUint64(word)
			var b [wordBytes]byte
			binary.NativeEndian.PutUint64(b[:], old)
			copy(b[off:], src)
			if atomic.CompareAndSwapUint64(word, old, binary.NativeEndian.Uint64(b[:])) {
				return
			}
		}
	}
}

// putGuarded is Put to memory that may not be mapped, or from it. It returns false then.
func putGuarded(dst, src []byte) (ok bool) {
	defer Recover(debug.SetPanicOnFault(true), &ok)
	Put(dst, src)
	return true
}
