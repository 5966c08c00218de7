// SPDX-License-Identifier: Apache-2.0

package shmem

import (
	"math"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

const futexWait, futexWake = 0, 1 // futex(2); not private: the word is in memory of several processes

// WaitWhile blocks while a word in shared memory has a value, until [WakeAll] is called for the word or
// for a time; negative: without a limit. It may return early.
func WaitWhile(word *uint32, value uint32, limit time.Duration) {
	var timeout *unix.Timespec
	if limit >= 0 {
		left := unix.NsecToTimespec(int64(limit))
		timeout = &left
	}
	unix.Syscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(word)), futexWait, uintptr(value),
		uintptr(unsafe.Pointer(timeout)), 0, 0)
}

// WakeAll wakes all threads that wait for a word to change, of any process. It does not block.
func WakeAll(word *uint32) {
	unix.RawSyscall(unix.SYS_FUTEX, uintptr(unsafe.Pointer(word)), futexWake, math.MaxInt32)
}
