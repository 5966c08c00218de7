// SPDX-License-Identifier: Apache-2.0

package memory

import (
	"encoding/binary"
	"sync/atomic"
	"unsafe"
)

// Span is a checked piece of registered memory. It outlives neither its region nor the
// binding of its window: Valid says whether it still stands.
type Span struct {
	mem   []byte
	entry *entry
	gen   uint32
}

// Inline makes a span of memory that is not registered.
func Inline(b []byte) Span { return Span{mem: b} }

// Valid says whether the key that the span was found by still stands for it.
func (s *Span) Valid() bool { return s.entry == nil || s.entry.gen == s.gen }

// Len returns the length in bytes.
func (s *Span) Len() int { return len(s.mem) }

// Sub returns n bytes from off on.
func (s *Span) Sub(off, n int) Span {
	return Span{mem: s.mem[off : off+n : off+n], entry: s.entry, gen: s.gen}
}

// Bytes returns the memory, for a gathering send. Nobody keeps it past the call.
func (s *Span) Bytes() []byte { return s.mem }

// Aligned8 says whether the span's memory is eight bytes at a multiple of eight.
func (s *Span) Aligned8() bool {
	return len(s.mem) == 8 && uintptr(unsafe.Pointer(unsafe.SliceData(s.mem)))%8 == 0
}

func (s *Span) word() *uint64 { return (*uint64)(unsafe.Pointer(unsafe.SliceData(s.mem))) }

// CompareSwap stores swap if the word equals compare, and returns what it was before. It
// is atomic against sync/atomic of the program; the span must be Aligned8.
func (s *Span) CompareSwap(compare, swap uint64) uint64 {
	for {
		old := atomic.LoadUint64(s.word())
		if old != compare || atomic.CompareAndSwapUint64(s.word(), old, swap) {
			return old
		}
	}
}

// FetchAdd adds to the word and returns what it was before, under the same conditions.
func (s *Span) FetchAdd(add uint64) uint64 { return atomic.AddUint64(s.word(), add) - add }

// Store writes 8 bytes at once, under the same conditions.
func (s *Span) Store(b []byte) { atomic.StoreUint64(s.word(), binary.NativeEndian.Uint64(b)) }

// Write copies b into the span at off. False: the region has ended.
func (s *Span) Write(t *Table, off int, b []byte) bool {
	if !s.Valid() {
		return false
	}
	copy(s.mem[off:off+len(b)], b)
	t.Written(s)
	return true
}
