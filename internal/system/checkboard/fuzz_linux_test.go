// SPDX-License-Identifier: Apache-2.0

package checkboard

import (
	"strings"
	"testing"
	"unsafe"
)

// FuzzBoard reads a board that says anything, and the name of a socket that tells of one.
func FuzzBoard(f *testing.F) {
	f.Add([]byte{}, "1/2/3", uint64(0))
	f.Add([]byte{1}, "", uint64(1))
	op := Operation{Op: 1, Source: 2, Dest: 3, Length: 4}
	own := &Board{own: new(memory)}
	own.Post(&op, own.Now())
	f.Add(unsafe.Slice((*byte)(unsafe.Pointer(own.own)), 2*words*8), "1/2", ^uint64(0))
	f.Fuzz(func(t *testing.T, content []byte, name string, at uint64) {
		m := new(memory)
		copy(unsafe.Slice((*byte)(unsafe.Pointer(m)), size), content)
		want := op.slot()
		if got := m.posted(&want, at/2, at); got != 0 && (got <= at/2 || got >= at) {
			t.Fatalf("posted at %d, not between %d and %d", got, at/2, at)
		}
		if pid, fd, ok := parse(name); ok && (strings.Count(name, "/") != 2 || pid>>31 != 0 || fd>>31 != 0) {
			t.Fatalf("%q names process %d and descriptor %d", name, pid, fd)
		}
	})
}
