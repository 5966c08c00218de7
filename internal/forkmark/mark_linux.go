// SPDX-License-Identifier: Apache-2.0

package forkmark

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// seconds is the mark: a receive timeout that nobody sets, of sockets that do not block and so
// have no use for one. Accepted sockets do not have
// their listener's.
const seconds = 1_470_911

// Set marks a socket that does not block. Should that fail, a forked child keeps it.
func Set(fd int) {
	_ = unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: seconds})
}

// SetConn marks a socket of package net.
func SetConn(c syscall.Conn) {
	if raw, err := c.SyscallConn(); err == nil {
		_ = raw.Control(func(fd uintptr) { Set(int(fd)) })
	}
}
