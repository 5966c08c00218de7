// SPDX-License-Identifier: Apache-2.0

package memory

import (
	"encoding/binary"
	"runtime/debug"
	"slices"
	"sync/atomic"
	"unsafe"
)

// Span is a checked piece of registered memory. It becomes invalid with its region or with the
// binding of its window: see Valid.
//
// It has no more than four words, so that Go passes it in registers: to copy a value in memory right after it was
// written there costs more than all checks.
type Span struct {
	first *byte
	n     int
	entry *entry
	gen   uint32
}

func (e *entry) spanOf(b []byte) Span {
	return Span{first: unsafe.SliceData(b), n: len(b), entry: e, gen: e.gen.Load()}
}

// Inline makes a span of memory that is not registered.
func Inline(b []byte) Span { return Span{first: unsafe.SliceData(b), n: len(b)} }

// Valid reports whether the key by which the span was found still stands for it.
func (s Span) Valid() bool { return s.entry == nil || s.entry.gen.Load() == s.gen }

// Foreign reports whether the memory may be unmapped.
func (s Span) Foreign() bool { return s.entry != nil && s.entry.foreign }

// copy is copy with memory of the span. It returns false if that is not mapped.
func (s Span) copy(dst, src []byte) bool {
	if s.Foreign() {
		return Copy(dst, src)
	}
	move(dst, src)
	return true
}

// put is Put to memory of the span. It returns false if that is not mapped.
func (s Span) put(dst, src []byte) bool {
	if s.Foreign() {
		return putGuarded(dst, src)
	}
	Put(dst, src)
	return true
}

// Append appends n bytes from off on to buf. It returns false if the region was deregistered.
func (s Span) Append(buf []byte, off, n int) ([]byte, bool) {
	if !s.Valid() {
		return buf, false
	}
	start := len(buf)
	buf = slices.Grow(buf, n)[:start+n]
	return buf, s.copy(buf[start:], s.Bytes()[off:off+n])
}

// Len returns the length in bytes.
func (s Span) Len() int { return s.n }

// Bytes returns the memory, without checking that the span is valid, as Part does.
func (s Span) Bytes() []byte { return unsafe.Slice(s.first, s.n) }

// Sub returns n bytes from off on.
func (s Span) Sub(off, n int) Span {
	b := s.Bytes()[off : off+n]
	return Span{first: unsafe.SliceData(b), n: n, entry: s.entry, gen: s.gen}
}

// Part returns n bytes from off on, for a gathering send, which must not keep them. It returns
// false if the region was deregistered.
func (s Span) Part(off, n int) ([]byte, bool) {
	b := s.Bytes()[off : off+n : off+n]
	return b, s.Valid() && (!s.Foreign() || present(b))
}

// Aligned8 reports whether the span is eight bytes at a multiple of eight.
func (s Span) Aligned8() bool {
	return s.n == 8 && uintptr(unsafe.Pointer(s.first))%8 == 0
}

func (s Span) word() *uint64 { return (*uint64)(unsafe.Pointer(s.first)) }

// CompareSwap stores swap if the word equals compare, and returns the previous value. It is atomic
// with respect to sync/atomic in the program. The span must be Aligned8. It returns false if the
// memory is not mapped.
func (s Span) CompareSwap(compare, swap uint64) (old uint64, ok bool) {
	if s.Foreign() {
		defer Recover(debug.SetPanicOnFault(true), &ok)
	}
	for {
		old = atomic.LoadUint64(s.word())
		if old != compare || atomic.CompareAndSwapUint64(s.word(), old, swap) {
			return old, true
		}
	}
}

// FetchAdd adds to the word and returns the previous value, under the same conditions.
func (s Span) FetchAdd(add uint64) (old uint64, ok bool) {
	if s.Foreign() {
		defer Recover(debug.SetPanicOnFault(true), &ok)
	}
	return atomic.AddUint64(s.word(), add) - add, true
}

// Store writes 8 bytes atomically, under the same conditions.
func (s Span) Store(b []byte) (ok bool) {
	if s.Foreign() {
		defer Recover(debug.SetPanicOnFault(true), &ok)
	}
	atomic.StoreUint64(s.word(), binary.NativeEndian.Uint64(b))
	return true
}

// Write copies b into the span at off, as [Put] does. It returns false if the region was deregistered.
func (s Span) Write(t *Table, off int, b []byte) bool {
	if !s.Valid() || !s.put(s.Bytes()[off:off+len(b)], b) {
		return false
	}
	t.Written(s)
	return true
}

// Read copies the span to b, which is as long. It returns false if memory of it is not mapped.
func (s Span) Read(b []byte) bool { return s.copy(b, s.Bytes()) }

// Update replaces the word by the result of f, if f says so, and returns the previous value, under
// the same conditions. f may be called several times.
func (s Span) Update(f func(old uint64) (next uint64, change bool)) (old uint64, ok bool) {
	if s.Foreign() {
		defer Recover(debug.SetPanicOnFault(true), &ok)
	}
	for {
		old = atomic.LoadUint64(s.word())
		next, change := f(old)
		if !change || atomic.CompareAndSwapUint64(s.word(), old, next) {
			return old, true
		}
	}
}
