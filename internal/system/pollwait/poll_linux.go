// SPDX-License-Identifier: Apache-2.0

package pollwait

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// PollNow is epoll_pwait with a timeout of zero, without telling Go's scheduler.
func PollNow(epoll int, events []unix.EpollEvent) (int, unix.Errno) {
	n, _, errno := unix.RawSyscall6(unix.SYS_EPOLL_PWAIT, uintptr(epoll), uintptr(unsafe.Pointer(unsafe.SliceData(events))), uintptr(len(events)), 0, 0, 0)
	return int(n), errno
}
