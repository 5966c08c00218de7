// SPDX-License-Identifier: Apache-2.0

//go:build !unix

package memory

import (
	"os"
	"unsafe"

	"github.com/ramjet-rdma/ramjet/verbs"
)

// MapShared fails.
func MapShared(uintptr, int64, int, bool) (buf []byte, unmap func(), err error) {
	return nil, nil, verbs.ErrNotSupported
}

// allocate takes page-aligned memory from the Go heap, on systems without mmap.
func allocate(size int, _ bool) ([]byte, func(), error) {
	page := os.Getpagesize()
	b := make([]byte, size+page)
	off := -int(uintptr(unsafe.Pointer(&b[0]))) & (page - 1)
	return b[off : off+size : off+size], func() {}, nil
}
