// SPDX-License-Identifier: Apache-2.0

package memory

import (
	"syscall"

	"golang.org/x/sys/unix"
)

const hugePage = 2 << 20

// mapHuge takes pages from the system's reserve of huge pages, or asks for transparent ones if
// there is none.
func mapHuge(size, prot, flags int) ([]byte, error) {
	if b, err := syscall.Mmap(-1, 0, size, prot, flags|unix.MAP_HUGETLB); err == nil {
		return b, nil
	}
	b, err := syscall.Mmap(-1, 0, size, prot, flags)
	if err == nil {
		unix.Madvise(b, unix.MADV_HUGEPAGE) // a hint: without it the pages are small
	}
	return b, err
}
