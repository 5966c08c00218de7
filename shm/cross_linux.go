// SPDX-License-Identifier: Apache-2.0

package shm

import (
	crand "crypto/rand"
	"encoding/binary"
	"os"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// probe is a word that peers read to learn whether the system lets them, and whether they have the right
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
		// The copy may wait for pages of either process. The collector must not wait with it, so this
		// is no RawSyscall, though that would be faster.
		n, _, errno := unix.Syscall6(call, uintptr(pid), uintptr(unsafe.Pointer(&here)), 1,
			uintptr(unsafe.Pointer(&there)), 1, 0)
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

// oneSided names the side that carries out one-sided operations on each kind of memory. The side for a given peer
// is found out when it is connected, see crosses.
func oneSided(o *Options) string {
	const mapped, asked = "the initiator, in memory of AllocMR; elsewhere ", "the target's process"
	b := []byte{0}
	scope, err := os.ReadFile("/proc/sys/kernel/yama/ptrace_scope")
	switch limited := err == nil && strings.TrimSpace(string(scope)) != "0"; {
	case o.NoCopies:
		return mapped + asked + " (copies=off)"
	case !cross(os.Getpid(), b, uint64(uintptr(unsafe.Pointer(probe))), false):
		return mapped + asked + ": the system refuses process_vm_readv"
	case limited && !tracesAll():
		return mapped + asked + ", except among its children: kernel.yama.ptrace_scope is " +
			strings.TrimSpace(string(scope))
	}
	return mapped +
		"too (process_vm_readv, process_vm_writev), but for words and atomics, which the target's process does"
}

// tracesAll reports whether this process has CAP_SYS_PTRACE.
func tracesAll() bool {
	h := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var d [2]unix.CapUserData
	return unix.Capget(&h, &d[0]) == nil && d[0].Effective&(1<<unix.CAP_SYS_PTRACE) != 0
}
