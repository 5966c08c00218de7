// SPDX-License-Identifier: Apache-2.0

package shm

import (
	crand "crypto/rand"
	"encoding/binary"
	"unsafe"

	"golang.org/x/sys/unix"
)

// probe is what peers read to learn whether the system lets them, and whether they have the right
// process: numbers of processes differ between namespaces.
var probe = func() *uint64 {
	var b [8]byte
	crand.Read(b[:])
	p := new(uint64)
	*p = binary.NativeEndian.Uint64(b[:])
	return p
}()

// crosses reports whether this process may copy from and to the memory of another (process_vm_readv,
// process_vm_writev).
func crosses(pid int, probe, value uint64) bool {
	var b [8]byte
	return pid > 0 && cross(pid, b[:], probe, false) && binary.NativeEndian.Uint64(b[:]) == value
}

// cross copies b to an address in another process, or back. It returns false if memory of either is
// not there, or the system does not allow it.
func cross(pid int, b []byte, addr uint64, write bool) bool {
	call := uintptr(unix.SYS_PROCESS_VM_READV)
	if write {
		call = unix.SYS_PROCESS_VM_WRITEV
	}
	for len(b) > 0 {
		if uint64(uintptr(addr)) != addr {
			return false
		}
		here := unix.Iovec{Base: unsafe.SliceData(b)}
		here.SetLen(len(b))
		there := unix.RemoteIovec{Base: uintptr(addr), Len: len(b)}
		n, _, errno := unix.RawSyscall6(call, uintptr(pid), uintptr(unsafe.Pointer(&here)), 1, uintptr(unsafe.Pointer(&there)), 1, 0)
		if errno == unix.EINTR {
			continue
		}
		if errno != 0 || n == 0 {
			return false
		}
		b, addr = b[n:], addr+uint64(n)
	}
	return true
}
