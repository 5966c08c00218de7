// SPDX-License-Identifier: Apache-2.0

//go:build cabi && linux

package main

import "C"

import (
	"errors"
	"syscall"

	"github.com/ramjet-rdma/ramjet/cm"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// errno returns the errno of an error.
func errno(err error) C.int {
	if err == nil {
		return 0
	}
	reasonFor(err)
	for _, e := range cmErrnos {
		if errors.Is(err, e.err) {
			return C.int(e.errno)
		}
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

// cmErrnos are the errnos of package cm's errors.
var cmErrnos = []struct {
	err   error
	errno syscall.Errno
}{
	{cm.ErrAddrInUse, syscall.EADDRINUSE},
	{cm.ErrNoAddr, syscall.EADDRNOTAVAIL},
	{cm.ErrTimeout, syscall.ETIMEDOUT},
	{cm.ErrDisconnected, syscall.ENOTCONN},
}

const (
	ok     = C.int(0)
	einval = C.int(syscall.EINVAL)
	enoent = C.int(syscall.ENOENT) // no such object
)
