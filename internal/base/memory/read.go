// SPDX-License-Identifier: Apache-2.0

package memory

import (
	"runtime/debug"

	"github.com/ramjet-rdma/ramjet/wire/crc"
)

// copier copies between slices of one length and continues a CRC over the copy.
type copier func(state uint32, dst, src []byte) uint32

func withoutCRC(state uint32, dst, src []byte) uint32 {
	move(dst, src)
	return state
}

// Read copies the next len(dst) bytes, which the list has, to dst, and walks past them. It returns
// false if a region of the list was deregistered, or memory of it is not mapped.
func (c *Cursor) Read(dst []byte) bool {
	_, ok := c.read(0, dst, withoutCRC)
	return ok
}

// ReadCRC is Read that continues a CRC32C over the copy in dst, so the CRC fits even if the program
// stores to the memory meanwhile.
func (c *Cursor) ReadCRC(dst []byte, state uint32) (uint32, bool) {
	return c.read(state, dst, crc.CopyCastagnoli)
}

func (c *Cursor) read(state uint32, dst []byte, f copier) (_ uint32, ok bool) {
	for len(dst) > 0 {
		s := &c.spans[c.index]
		if !s.Valid() {
			return state, false
		}
		n := min(len(dst), s.n-c.off)
		if src := s.Bytes()[c.off:][:n]; !s.Foreign() {
			state = f(state, dst[:n], src)
		} else if state, ok = guarded(state, dst[:n], src, f); !ok {
			return state, false
		}
		c.advance(n)
		dst = dst[n:]
	}
	return state, true
}

// guarded is f on memory that may not be mapped.
func guarded(state uint32, dst, src []byte, f copier) (_ uint32, ok bool) {
	defer Recover(debug.SetPanicOnFault(true), &ok)
	return f(state, dst, src), true
}
