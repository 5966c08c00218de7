// SPDX-License-Identifier: Apache-2.0

package memory

import (
	"math"

	"github.com/ramjet-rdma/ramjet/verbs"
)

// MaxMessage is the longest message that engines take, in bytes: 2 GiB (IBTA 9.7.4.1.6), and on
// 32-bit systems half of that, so that it fits in an int with room to spare.
const MaxMessage = 1 << (30 + ^uint(0)>>63)

// Cursor walks a scatter/gather list from front to back. Its memory is reused.
type Cursor struct {
	spans []Span
	index int // the current span
	off   int // within it
	pos   int // within the whole
	total int
}

// Reset empties the list.
func (c *Cursor) Reset() {
	clear(c.spans)
	*c = Cursor{spans: c.spans[:0]}
}

// Set resolves a list of entries. It returns false if one of them is not allowed.
func (c *Cursor) Set(t *Table, pd PD, sgl []verbs.SGE, write bool) bool {
	if len(sgl) == 1 && sgl[0].Length > 0 {
		s, ok := t.Local(pd, &sgl[0], write)
		if ok {
			c.One(s)
		} else {
			c.Reset()
		}
		return ok
	}
	c.Reset()
	for i := range sgl {
		if sgl[i].Length == 0 {
			continue
		}
		s, ok := t.Local(pd, &sgl[i], write)
		if !ok {
			return false
		}
		c.Add(s)
	}
	return true
}

// Add appends a span.
func (c *Cursor) Add(s Span) {
	c.spans = append(c.spans, s)
	if n := s.n; n > math.MaxInt-c.total {
		c.total = math.MaxInt // entries may overlap, so together they can be more than there is memory
	} else {
		c.total += n
	}
}

// One makes s the whole list.
func (c *Cursor) One(s Span) {
	if len(c.spans) != 1 {
		c.Reset()
		c.Add(s)
		return
	}
	c.spans[0] = s
	c.index, c.off, c.pos, c.total = 0, 0, 0, s.n
}

// Len returns the length of the whole list in bytes, or math.MaxInt if it is more.
func (c *Cursor) Len() int { return c.total }

// Pos returns the bytes walked.
func (c *Cursor) Pos() int { return c.pos }

// Seek moves to a position.
func (c *Cursor) Seek(pos int) {
	if pos == c.pos {
		return
	}
	if pos < c.pos {
		c.index, c.off, c.pos = 0, 0, 0
	}
	for n := pos - c.pos; n > 0; {
		step := min(n, c.spans[c.index].n-c.off)
		c.advance(step)
		n -= step
	}
}

func (c *Cursor) advance(n int) {
	c.pos += n
	c.off += n
	if c.off == c.spans[c.index].n {
		c.index++
		c.off = 0
	}
}

// Write copies b to the current position, as [Put] does. It returns false if the list is shorter, or a region of
// it was deregistered; the bytes before that have been written.
func (c *Cursor) Write(t *Table, b []byte) bool {
	for len(b) > 0 {
		if c.index == len(c.spans) {
			return false
		}
		s := &c.spans[c.index]
		if !s.Valid() {
			return false
		}
		n := min(len(b), s.n-c.off)
		if !s.put(s.Bytes()[c.off:c.off+n], b[:n]) {
			return false
		}
		t.Written(*s)
		c.advance(n)
		b = b[n:]
	}
	return true
}

// Next returns up to n of the next bytes that are contiguous, and walks past them. It returns false
// if a region of the list was deregistered.
func (c *Cursor) Next(n int) ([]byte, bool) {
	s := &c.spans[c.index]
	b, ok := s.Part(c.off, min(n, s.n-c.off))
	if ok {
		c.advance(len(b))
	}
	return b, ok
}

// Pieces returns the number of pieces of the next n bytes, which the list has.
func (c *Cursor) Pieces(n int) int {
	pieces, off := 0, c.off
	for i := c.index; n > 0; i++ {
		n -= c.spans[i].n - off
		off = 0
		pieces++
	}
	return pieces
}

// Append appends the next n bytes to buf, and walks past them. It returns false if a region of the
// list was deregistered.
func (c *Cursor) Append(buf []byte, n int) (_ []byte, ok bool) {
	for n > 0 {
		s := &c.spans[c.index]
		step := min(n, s.n-c.off)
		if buf, ok = s.Append(buf, c.off, step); !ok {
			return buf, false
		}
		c.advance(step)
		n -= step
	}
	return buf, true
}
