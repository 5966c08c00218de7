// SPDX-License-Identifier: Apache-2.0

//go:build unix && !linux

package pin

import (
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/ramjet-rdma/ramjet/verbs"
)

// lockOnFault does nothing: there is only mlock of everything here.
func lockOnFault(from, to uintptr) error { return nil }

func canWait() error {
	return &verbs.OpError{Op: "reg_mr", Err: verbs.ErrNotSupported,
		Detail: "this system cannot pin pages when they are used"}
}

// span returns pages as the calls want them. They may be more than one object of Go, or a part of one.
//
//go:nocheckptr
func span(from, to uintptr) []byte {
	return unsafe.Slice(*(**byte)(unsafe.Pointer(&from)), to-from)
}

func lock(from, to uintptr) error { return unix.Mlock(span(from, to)) }

func unlock(from, to uintptr) { unix.Munlock(span(from, to)) }

// refused explains why pages cannot be locked. These systems do not tell the limit from other reasons,
// nor how much counts against it.
func refused(err error, from, to, held uintptr) error {
	n := uint64(to - from)
	switch err {
	case unix.EPERM:
		return limited(n, uint64(held), 0)
	case unix.ENOMEM, unix.EAGAIN:
		return &verbs.OpError{Op: "reg_mr", Err: verbs.ErrPinLimit, Detail: fmt.Sprintf(
			"pinning %d bytes, with %d pinned: %v. ulimit -l shows the limit of this process, and the system has one of its own", n, held, err)}
	}
	return &verbs.OpError{Op: "reg_mr", Err: verbs.ErrNoMemory, Detail: fmt.Sprintf("pinning %d bytes: %v", n, err)}
}

// Prefetch asks for pages. They may come later.
func Prefetch(b []byte, write bool) error {
	if from, to := pages(b); from != to {
		unix.Madvise(span(from, to), unix.MADV_WILLNEED) // a hint
	}
	return nil
}
