// SPDX-License-Identifier: Apache-2.0

//go:build unix

package notification

import (
	"syscall"
	"time"
)

// processorTime returns the time that the process has used so far of all processors. It returns false if the
// system does not report it.
func processorTime() (time.Duration, bool) {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0, false
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()), true
}
