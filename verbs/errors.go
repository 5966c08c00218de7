// SPDX-License-Identifier: Apache-2.0

package verbs

import (
	"errors"
	"syscall"
)

// Sentinels that calls return inside an [*OpError]. Each stands for one errno of the C
// interface, see [OpError.Errno].
var (
	ErrBusy         = errors.New("object is in use by others")
	ErrClosed       = errors.New("object is closed")
	ErrInvalid      = errors.New("invalid argument")
	ErrNotSupported = errors.New("not supported by this device")
	ErrQueueFull    = errors.New("queue is full") // of a send queue: poll a completion, and see [Signaled]
	ErrNoMemory     = errors.New("out of memory or of device resources")
	ErrState        = errors.New("not allowed in this queue pair state")
	ErrOverflow     = errors.New("completion queue overflowed")
	ErrPermission   = errors.New("operation not permitted")
	ErrFault        = errors.New("memory is not mapped as the access flags need it")
	ErrNotFound     = errors.New("no such object")
	ErrPinLimit     = errors.New("more memory than the process may pin")
)

// OpError says which call failed and why.
type OpError struct {
	Op     string // the call: "post_send", "modify_qp", …
	Err    error  // one of the sentinels of this package, or a system error
	Detail string // the exact cause and its remedy; may be empty
}

// Error returns verbs, the operation, the error and the detail, with colons between them.
func (e *OpError) Error() string {
	s := "verbs: " + e.Op + ": " + e.Err.Error()
	if e.Detail != "" {
		s += ": " + e.Detail
	}
	return s
}

// Unwrap returns the sentinel.
func (e *OpError) Unwrap() error { return e.Err }

// Errno returns the errno of the C interface for this error.
func (e *OpError) Errno() syscall.Errno {
	var errno syscall.Errno
	switch {
	case errors.As(e.Err, &errno):
		return errno
	case errors.Is(e.Err, ErrBusy):
		return syscall.EBUSY
	case errors.Is(e.Err, ErrNotSupported):
		return syscall.EOPNOTSUPP
	case errors.Is(e.Err, ErrQueueFull), errors.Is(e.Err, ErrNoMemory), errors.Is(e.Err, ErrPinLimit):
		return syscall.ENOMEM
	case errors.Is(e.Err, ErrPermission):
		return syscall.EPERM
	case errors.Is(e.Err, ErrFault):
		return syscall.EFAULT
	case errors.Is(e.Err, ErrNotFound):
		return syscall.ENOENT
	}
	return syscall.EINVAL
}

func opErr(op string, err error, detail string) error {
	return &OpError{Op: op, Err: err, Detail: detail}
}
