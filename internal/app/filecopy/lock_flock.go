// SPDX-License-Identifier: Apache-2.0

//go:build linux || darwin || freebsd || netbsd || openbsd

package filecopy

import (
	"os"

	"golang.org/x/sys/unix"
)

// lockFile keeps others that lock the file from writing it, until it is closed. A file system without locks has none.
func lockFile(f *os.File) error {
	for {
		switch unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) {
		case unix.EINTR:
		case unix.EWOULDBLOCK:
			return errTaken
		default:
			return nil
		}
	}
}
