// SPDX-License-Identifier: Apache-2.0

package shmem

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// ErrDescriptors means that the process has few descriptors left.
var ErrDescriptors = errors.New("too many descriptors")

// spared is how many descriptors are left to the rest of the program: with fewer it could open no file, and
// no peer could be accepted to be refused with a reason. Of a limit below 512 it is an eighth.
const spared = 64

// spare returns an [ErrDescriptors] that names the limit if a new descriptor is among the spared ones. The system
// hands out the lowest free number.
func spare(fd int) error {
	var l unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &l); err != nil {
		return nil
	}
	if uint64(fd) < l.Cur-min(spared, l.Cur/8) {
		return nil
	}
	return fmt.Errorf("%w: the limit is %d (RLIMIT_NOFILE, ulimit -n)", ErrDescriptors, l.Cur)
}
