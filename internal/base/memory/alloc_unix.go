// SPDX-License-Identifier: Apache-2.0

//go:build unix

package memory

import (
	"errors"
	"fmt"
	"os"
	"syscall"

	"github.com/ramjet-rdma/ramjet/internal/system/mappings"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// MapShared maps size bytes of a file from offset on, a multiple of the page size.
func MapShared(fd uintptr, offset int64, size int, writable bool) (buf []byte, unmap func(), err error) {
	prot := syscall.PROT_READ
	if writable {
		prot |= syscall.PROT_WRITE
	}
	if err := mappings.Take(); err != nil {
		return nil, nil, fmt.Errorf("%w: %w", verbs.ErrNoMemory, err)
	}
	b, err := syscall.Mmap(int(fd), offset, size, prot, syscall.MAP_SHARED)
	if err != nil {
		mappings.Give()
		return nil, nil, fmt.Errorf("mapping %d bytes of the file from %d on: %w", size, offset, err)
	}
	return b, func() {
		syscall.Munmap(b)
		mappings.Give()
	}, nil
}

// allocate maps size bytes, page-aligned.
func allocate(size int, huge bool) ([]byte, func(), error) {
	unit := os.Getpagesize()
	if huge {
		unit = hugePage
	}
	whole := (size + unit - 1) / unit * unit
	if whole < size {
		return nil, nil, verbs.ErrNoMemory
	}
	const prot, flags = syscall.PROT_READ | syscall.PROT_WRITE, syscall.MAP_PRIVATE | syscall.MAP_ANON
	var b []byte
	err := errors.ErrUnsupported
	if huge {
		b, err = mapHuge(whole, prot, flags)
	}
	if err != nil {
		b, err = syscall.Mmap(-1, 0, whole, prot, flags)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("%w: mapping %d bytes: %v", verbs.ErrNoMemory, whole, err)
	}
	return b[:size:size], func() { syscall.Munmap(b) }, nil
}
