// SPDX-License-Identifier: Apache-2.0

package forkmark

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// seconds is the mark: an unlikely receive timeout, on non-blocking sockets, which do not use it.
// Accepted sockets do not inherit their listener's.
const seconds = 1_470_911

// Set marks a non-blocking socket. If that fails, a forked child keeps the socket.
func Set(fd int) {
	_ = unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: seconds})
}

// SetConn marks a socket of package net.
func SetConn(c syscall.Conn) {
	if raw, err := c.SyscallConn(); err == nil {
		_ = raw.Control(func(fd uintptr) { Set(int(fd)) })
	}
}
