// SPDX-License-Identifier: Apache-2.0

package check

import (
	"sync"
	"sync/atomic"
	"unsafe"
)

// copied remembers where the checker has copied received data to, and where the device and peers have written, so that
// this is not taken for the program's doing: receives may share memory, a send and a receive, and a response may be
// written over its request.
type copied struct {
	last atomic.Uint32 // copies so far, modulo 2^32
	mu   sync.Mutex    // of the fields below

	since  uint32                // copies up to this one are forgotten
	blocks map[uintptr]*block    // by number
	open   map[*request][][]byte // memory that the device writes to until the work request has ended
}

// block has the last copies to a piece of memory, page by page.
type block struct {
	whole [pageCount]uint32 // the last one to all of a page
	parts [pageCount]*lined // of others; nil: there were none
}

// lined has the last copies to parts of a page, by line.
type lined [lineCount]uint32

const (
	pageSize  = 4096
	lineSize  = 64
	lineCount = pageSize / lineSize
	pageCount = 16
	// maxBlocks is how many blocks are remembered: 1 GiB of memory.
	maxBlocks = 1 << 14
)

// now returns the number of the last copy.
func (c *copied) now() uint32 { return c.last.Load() }

// add notes a copy to memory.
func (c *copied) add(mem []byte) {
	if len(mem) == 0 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.note(mem)
}

// begin notes that the device itself may write to memory of a work request from now on.
func (c *copied) begin(r *request, mem []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.open == nil {
		c.open = map[*request][][]byte{}
	}
	c.open[r] = append(c.open[r], mem)
}

// end notes that a work request has ended: the memory of begin counts as written to now.
func (c *copied) end(r *request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, mem := range c.open[r] {
		c.note(mem)
	}
	delete(c.open, r)
}

// note is add, with c.mu held.
func (c *copied) note(mem []byte) {
	last := c.last.Add(1)
	if len(c.blocks) > maxBlocks {
		clear(c.blocks)
		c.since = last
	}
	if c.blocks == nil {
		c.blocks = map[uintptr]*block{}
	}
	var b *block
	for line, end := lines(mem); line < end; {
		page, first := line/lineCount, line%lineCount
		if b == nil || page%pageCount == 0 {
			if b = c.blocks[page/pageCount]; b == nil {
				b = &block{}
				c.blocks[page/pageCount] = b
			}
		}
		n := min(end-line, lineCount-first)
		line += n
		if n == lineCount {
			b.whole[page%pageCount] = last
			continue
		}
		p := &b.parts[page%pageCount]
		if *p == nil {
			*p = new(lined)
		}
		for i := first; i < first+n; i++ {
			(*p)[i] = last
		}
	}
}

// after reports whether there was a copy to memory after the one of a number, or the device may write there now.
func (c *copied) after(mem []byte, n uint32) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	later := func(copy uint32) bool { return copy != 0 && int32(copy-n) > 0 }
	if int32(c.since-n) > 0 {
		return true
	}
	for _, all := range c.open {
		for _, other := range all {
			if overlap(mem, other) {
				return true
			}
		}
	}
	for line, end := lines(mem); line < end; line++ {
		page := line / lineCount
		b := c.blocks[page/pageCount]
		if b == nil {
			continue
		}
		p := b.parts[page%pageCount]
		if later(b.whole[page%pageCount]) || p != nil && later(p[line%lineCount]) {
			return true
		}
	}
	return false
}

func overlap(a, b []byte) bool {
	at, other := uintptr(unsafe.Pointer(unsafe.SliceData(a))), uintptr(unsafe.Pointer(unsafe.SliceData(b)))
	return at < other+uintptr(len(b)) && other < at+uintptr(len(a))
}

// lines returns the lines of memory, as numbers.
func lines(b []byte) (first, end uintptr) {
	start := uintptr(unsafe.Pointer(unsafe.SliceData(b)))
	return start / lineSize, (start + uintptr(len(b)) + lineSize - 1) / lineSize
}
