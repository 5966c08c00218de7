// SPDX-License-Identifier: Apache-2.0

package check

import (
	"sync"
	"sync/atomic"
	"unsafe"
)

// copied remembers where the checker has copied received data to, and where peers have written, so that this is not
// taken for the program's doing: receives may share memory, a send and a receive, and a response may be written over its
// request.
type copied struct {
	last atomic.Uint32 // copies so far, modulo 2^32
	mu   sync.Mutex    // of what follows

	since uint32                         // copies up to this one are forgotten
	pages map[uintptr]*[lineCount]uint32 // by page, and by line: the last copy there
}

const (
	pageSize  = 4096
	lineSize  = 64
	lineCount = pageSize / lineSize
	// maxPages is how many pages are remembered: 1 GiB of memory.
	maxPages = 1 << 18
)

// now returns the number of the last copy.
func (c *copied) now() uint32 { return c.last.Load() }

// add notes a copy to memory.
func (c *copied) add(b []byte) {
	if len(b) == 0 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	last := c.last.Add(1)
	if len(c.pages) > maxPages {
		clear(c.pages)
		c.since = last
	}
	if c.pages == nil {
		c.pages = map[uintptr]*[lineCount]uint32{}
	}
	var page *[lineCount]uint32
	first, end := lines(b)
	for line := first; line < end; line++ {
		if line == first || line%lineCount == 0 {
			if page = c.pages[line/lineCount]; page == nil {
				page = new([lineCount]uint32)
				c.pages[line/lineCount] = page
			}
		}
		page[line%lineCount] = last
	}
}

// after reports whether there was a copy to memory after the one of a number.
func (c *copied) after(b []byte, n uint32) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if int32(c.since-n) > 0 {
		return true
	}
	first, end := lines(b)
	for line := first; line < end; line++ {
		if page := c.pages[line/lineCount]; page != nil && page[line%lineCount] != 0 && int32(page[line%lineCount]-n) > 0 {
			return true
		}
	}
	return false
}

// lines returns the lines of memory, as numbers.
func lines(b []byte) (first, end uintptr) {
	start := uintptr(unsafe.Pointer(unsafe.SliceData(b)))
	return start / lineSize, (start + uintptr(len(b)) + lineSize - 1) / lineSize
}
