// SPDX-License-Identifier: Apache-2.0

package pollwait

import (
	"os"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// PollNow is epoll_pwait with a timeout of zero, without telling Go's scheduler.
func PollNow(epoll int, events []unix.EpollEvent) (int, unix.Errno) {
	n, _, errno := unix.RawSyscall6(unix.SYS_EPOLL_PWAIT, uintptr(epoll),
		uintptr(unsafe.Pointer(unsafe.SliceData(events))), uintptr(len(events)), 0, 0, 0)
	return int(n), errno
}

// Poll is ppoll(2); a negative time is no limit. It returns how many of the descriptors are ready. A poll
// that a signal interrupts returns as if none were.
func Poll(fds []unix.PollFd, left time.Duration) (int, error) {
	var limit *unix.Timespec
	if left >= 0 {
		ts := unix.NsecToTimespec(int64(left))
		limit = &ts
	}
	n, _, errno := syscall.Syscall6(unix.SYS_PPOLL, uintptr(unsafe.Pointer(unsafe.SliceData(fds))), uintptr(len(fds)),
		uintptr(unsafe.Pointer(limit)), 0, 0, 0)
	switch errno {
	case 0:
		return int(n), nil
	case unix.EINTR:
		return 0, nil
	}
	return 0, os.NewSyscallError("ppoll", errno)
}
