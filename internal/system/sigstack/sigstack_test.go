// SPDX-License-Identifier: Apache-2.0

package sigstack

import (
	"testing"
	"unsafe"
)

// TestReserve compares addresses of a variable on the stack: once there is room, a call that needs it moves nothing.
func TestReserve(t *testing.T) {
	done := make(chan [3]uintptr)
	go func() {
		var here int
		before := uintptr(unsafe.Pointer(&here))
		Reserve()
		reserved := uintptr(unsafe.Pointer(&here))
		deep(Room/1024 - 8)
		done <- [3]uintptr{before, reserved, uintptr(unsafe.Pointer(&here))}
		use1(&here)
	}()
	at := <-done
	if at[0] == at[1] {
		t.Error("a new goroutine's stack had the room before")
	}
	if at[1] != at[2] {
		t.Error("the stack was moved by calls that need less than the room")
	}
}

// deep needs n KiB of the stack.
//
//go:noinline
func deep(n int) byte {
	var b [900]byte
	b[n] = byte(n)
	if n > 0 {
		b[0] = deep(n - 1)
	}
	return b[n/2]
}

//go:noinline
func use1(*int) {}

func BenchmarkReserve(b *testing.B) {
	for b.Loop() {
		Reserve()
	}
}
