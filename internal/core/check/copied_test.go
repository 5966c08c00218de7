// SPDX-License-Identifier: Apache-2.0

package check

import (
	"testing"
	"unsafe"
)

// TestCopied checks which memory counts as written to, and since when.
func TestCopied(t *testing.T) {
	room := make([]byte, 5*pageSize)
	start := -uintptr(unsafe.Pointer(unsafe.SliceData(room))) % pageSize
	b := room[start : start+4*pageSize]
	for _, c := range []struct{ from, to int }{{0, 1}, {0, lineSize}, {lineSize, pageSize}, {0, pageSize}, {pageSize - 1, 2*pageSize + 1}, {100, 4 * pageSize}} {
		var w copied
		w.add(b[3*pageSize:])
		before := w.now()
		w.add(b[c.from:c.to])
		first, end := c.from/lineSize, (c.to+lineSize-1)/lineSize
		for line := range len(b) / lineSize {
			at := b[line*lineSize : line*lineSize+1]
			if got, want := w.after(at, before), first <= line && line < end; got != want {
				t.Fatalf("bytes %d to %d written: line %d is %v", c.from, c.to, line, got)
			}
			if w.after(at, w.now()) {
				t.Fatalf("line %d was written to later than everything", line)
			}
		}
		if !w.after(b, before) || !w.after(b[3*pageSize:], 0) {
			t.Errorf("bytes %d to %d written: not known of all", c.from, c.to)
		}
	}
}
