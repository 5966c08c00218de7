// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package kernel

import (
	"syscall"

	"github.com/ramjet-rdma/ramjet/verbs"
)

// errorOf returns package verbs' error for an errno; nil for 0.
func errorOf(errno syscall.Errno) error {
	switch errno {
	case 0:
		return nil
	case syscall.EINVAL, syscall.ENODATA: // of an empty row of a table
		return verbs.ErrInvalid
	case syscall.ENOMEM:
		return verbs.ErrNoMemory
	case syscall.EBUSY:
		return verbs.ErrBusy
	case syscall.EOPNOTSUPP, syscall.ENOSYS, syscall.EPROTONOSUPPORT:
		return verbs.ErrNotSupported
	case syscall.EPERM, syscall.EACCES:
		return verbs.ErrPermission
	case syscall.EFAULT:
		return verbs.ErrFault
	case syscall.ENOENT:
		return verbs.ErrNotFound
	}
	return errno
}

// resultOf returns the error of a function that returns an errno, or minus one and errno.
func resultOf(r uintptr, errno syscall.Errno) error {
	switch n := int32(r); {
	case n == 0:
		return nil
	case n > 0:
		return errorOf(syscall.Errno(n))
	case errno != 0:
		return errorOf(errno)
	case n < -1:
		return errorOf(syscall.Errno(-n))
	}
	return verbs.ErrInvalid
}

// destroyed returns the error of a function that destroys an object. The kernel has freed the objects of a device that
// is gone, and says EIO.
func destroyed(r uintptr, errno syscall.Errno) error {
	err := resultOf(r, errno)
	if err == syscall.EIO || err == syscall.ENODEV {
		return nil
	}
	return err
}

// madeOf returns the error of a function that returns an object, or NULL and errno.
func madeOf(r uintptr, errno syscall.Errno) error {
	switch {
	case r != 0:
		return nil
	case errno == 0:
		return verbs.ErrInvalid
	}
	return errorOf(errno)
}

// lacking names the feature that the device lacks, if that is the reason for err.
func lacking(op string, err error, function string) error {
	if err != verbs.ErrNotSupported {
		return err
	}
	return fail(op, err, "the device, or its driver in libibverbs, has no "+function)
}

func fail(op string, err error, detail string) error {
	return &verbs.OpError{Op: op, Err: err, Detail: detail}
}
