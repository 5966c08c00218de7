// SPDX-License-Identifier: Apache-2.0

package rnet

import (
	"context"
	"errors"
	"net"
	"os"
	"syscall"

	"github.com/ramjet-rdma/ramjet/verbs"
)

// timeoutError is a timeout as a [net.Error].
type timeoutError struct{ error }

func (timeoutError) Timeout() bool   { return true }
func (timeoutError) Temporary() bool { return true }
func (e timeoutError) Unwrap() error { return e.error }

// netError converts err to the errors that programs of package net look for. A timeout gets the method
// Timeout: [net.OpError] asks the error that it holds for it, and not the errors behind it. The error of a
// closed device is also net.ErrClosed.
func netError(err error) error {
	if errors.Is(err, verbs.ErrClosed) && !errors.Is(err, net.ErrClosed) {
		return closedError{err}
	}
	if t, ok := err.(interface{ Timeout() bool }); ok && t.Timeout() {
		return err
	}
	for _, late := range []error{os.ErrDeadlineExceeded, context.DeadlineExceeded, syscall.ETIMEDOUT} {
		if errors.Is(err, late) {
			return timeoutError{err}
		}
	}
	return err
}

// closedError is the error of a device that was closed under the connection.
type closedError struct{ error }

func (e closedError) Unwrap() error        { return e.error }
func (e closedError) Is(target error) bool { return target == net.ErrClosed }
