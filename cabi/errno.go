// SPDX-License-Identifier: Apache-2.0

//go:build cabi && linux

package main

import "C"

import (
	"errors"
	"syscall"

	"github.com/ramjet-rdma/ramjet/verbs"
)

// errno is what C gets for an error.
func errno(err error) C.int {
	if err == nil {
		return 0
	}
	var op *verbs.OpError
	if errors.As(err, &op) {
		return C.int(op.Errno())
	}
	var n syscall.Errno
	if errors.As(err, &n) {
		return C.int(n)
	}
	return C.int(syscall.EINVAL)
}

const (
	ok     = C.int(0)
	einval = C.int(syscall.EINVAL)
)
