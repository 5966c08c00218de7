// SPDX-License-Identifier: Apache-2.0

// Package mapwatch tells when memory that a program has mapped goes away: by munmap, by mremap, by
// another mapping in its place, or by madvise with MADV_DONTNEED, MADV_FREE or MADV_REMOVE.
//
// On Linux it asks userfaultfd(2) for these events. The memory is registered for write protection, and
// nothing is ever write-protected: so the events come, and page faults are handled by the system as
// before. Elsewhere there is no such thing, and [New] says so.
//
// The system keeps the thread that unmaps waiting until its event is read. The reader is a goroutine,
// so the thread must be one that the Go runtime can do without: in a system call made by package
// syscall or golang.org/x/sys/unix, or in C. RawSyscall does not do.
package mapwatch
