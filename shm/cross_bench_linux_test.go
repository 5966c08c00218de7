// SPDX-License-Identifier: Apache-2.0

package shm

import (
	"os"
	"testing"
	"unsafe"
)

// BenchmarkCross copies a word by the system's copy between processes, here from the process itself.
func BenchmarkCross(b *testing.B) {
	var word [8]byte
	for b.Loop() {
		if !cross(os.Getpid(), word[:], uint64(uintptr(unsafe.Pointer(probe))), false) {
			b.Skip("the system refuses process_vm_readv")
		}
	}
}
