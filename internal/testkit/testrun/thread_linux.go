// SPDX-License-Identifier: Apache-2.0

package testrun

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// threadUse is a thread, and how often the system has switched from it to another.
type threadUse struct {
	id       int
	switches int64
}

// ownThread returns the thread that runs the goroutine.
func ownThread() threadUse {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_THREAD, &u); err != nil {
		return threadUse{id: syscall.Gettid()}
	}
	return threadUse{id: syscall.Gettid(), switches: int64(u.Nvcsw) + int64(u.Nivcsw)}
}
