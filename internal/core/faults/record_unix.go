// SPDX-License-Identifier: Apache-2.0

//go:build unix

package faults

import (
	"os"

	"golang.org/x/sys/unix"
)

// mapRecord maps the beginning of a record. It stays mapped as long as the process runs.
func mapRecord(f *os.File, size int) ([]byte, error) {
	return unix.Mmap(int(f.Fd()), 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
}
