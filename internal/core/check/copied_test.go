// SPDX-License-Identifier: Apache-2.0

package check

import (
	"testing"
	"unsafe"

	"github.com/ramjet-rdma/ramjet/verbs"
)

// TestCopied checks which memory counts as written to, and since when.
func TestCopied(t *testing.T) {
	room := make([]byte, 21*pageSize)
	start := -uintptr(unsafe.Pointer(unsafe.SliceData(room))) % pageSize
	b := room[start : start+20*pageSize]
	for _, c := range []struct{ from, to int }{{0, 1}, {0, lineSize}, {lineSize, pageSize}, {0, pageSize},
		{pageSize - 1, 2*pageSize + 1}, {100, 20 * pageSize}, {3, 17*pageSize + 5}} {
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

// TestDirect: memory that the device itself writes to counts as written to until its work request has ended, and then.
func TestDirect(t *testing.T) {
	b := make([]byte, 4*lineSize)
	var w copied
	r := &request{}
	before := w.now()
	w.begin(r, b[lineSize:2*lineSize])
	w.begin(r, b[3*lineSize:])
	if w.after(b[:lineSize], before) || !w.after(b[:lineSize+1], w.now()) || !w.after(b[3*lineSize+1:], w.now()) {
		t.Error("not what the device writes to")
	}
	w.end(r)
	if !w.after(b[3*lineSize:], before) || w.after(b[3*lineSize:], w.now()) || len(w.open) != 0 {
		t.Error("the end was no copy")
	}
}

// TestSendBehindWrite: memory that a peer's WRITE changes until its end is not taken for the program's doing.
func TestSendBehindWrite(t *testing.T) {
	for _, c := range []struct {
		name   string
		lo, hi int  // of the WRITE
		ended  bool // before the send's memory is looked at
		found  bool
	}{
		{name: "under way", lo: 0, hi: 256},
		{name: "ended", lo: 0, hi: 256, ended: true},
		{name: "elsewhere", lo: 128, hi: 256, found: true},
	} {
		b := make([]byte, 256)
		d := &Device{c: &Checker{history: newHistory()}}
		w := watcher{d.c.history, d}
		w.Begin(1, verbs.OpWrite, verbs.Remote{}, b[c.lo:c.hi])
		r := &request{pieces: []piece{{mem: b[:128], seal: newSeal(b[:128], d.c.copied.now())}}}
		b[100]++
		if c.ended {
			w.End(1, verbs.OpWrite, b[c.lo:c.hi], true)
		}
		if found := d.changed(r, len(b), new(lastSum)) != nil; found != c.found {
			t.Errorf("%s: found is %v", c.name, found)
		}
	}
}
