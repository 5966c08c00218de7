// SPDX-License-Identifier: Apache-2.0

package check

import (
	"sync"
	"sync/atomic"
	"unsafe"
)

// copied remembers where the checker has copied received data to, and where peers have written, so that this is not
// taken for the program's doing: receives may share memory, a send and a receive, and a response may be written over
// its request.
type copied struct {
	last atomic.Uint32 // copies so far, modulo 2^32
	mu   sync.Mutex    // of what follows

	since uint32            // copies up to this one are forgotten
	pages map[uintptr]*page // by number
}

// page has the last copies to a page of memory.
type page struct {
	whole uint32            // the last one to all of it
	lines [lineCount]uint32 // by line: the last of others
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
		c.pages = map[uintptr]*page{}
	}
	for line, end := lines(b); line < end; {
		p := c.pages[line/lineCount]
		if p == nil {
			p = &page{}
			c.pages[line/lineCount] = p
		}
		first, n := line%lineCount, min(end-line, lineCount-line%lineCount)
		if n == lineCount {
			p.whole = last
		} else {
			for i := first; i < first+n; i++ {
				p.lines[i] = last
			}
		}
		line += n
	}
}

// after reports whether there was a copy to memory after the one of a number.
func (c *copied) after(b []byte, n uint32) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	later := func(copy uint32) bool { return copy != 0 && int32(copy-n) > 0 }
	if int32(c.since-n) > 0 {
		return true
	}
	for line, end := lines(b); line < end; line++ {
		if p := c.pages[line/lineCount]; p != nil && (later(p.whole) || later(p.lines[line%lineCount])) {
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
