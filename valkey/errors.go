// SPDX-License-Identifier: Apache-2.0

package valkey

import (
	"context"
	"errors"
	"fmt"
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

// closedError is the error of a device that was closed under the connection.
type closedError struct{ error }

func (e closedError) Unwrap() error        { return e.error }
func (e closedError) Is(target error) bool { return target == net.ErrClosed }

// netError converts err to an error that programs of package net look for. A timeout gets the method Timeout:
// [net.OpError] asks the error that it holds for it, and not the errors behind it.
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

// statusErr returns why a connection broke, of whose queue pair a work request failed. nil: the peer
// has closed it.
func statusErr(s verbs.Status, qp *verbs.QP) error {
	switch s {
	case verbs.StatusWRFlushError:
		switch f := qp.Failure(); {
		case f == nil || f.Side == verbs.FailedStream || f.Reason == verbs.ReasonPeerClosed:
			return nil
		default:
			return fmt.Errorf("%w: %v", syscall.ECONNRESET, f)
		}
	case verbs.StatusRetryExceeded, verbs.StatusRNRRetryExceeded:
		return fmt.Errorf("%w: %w", syscall.ETIMEDOUT, s.Err())
	}
	return fmt.Errorf("%w: %w", syscall.ECONNRESET, s.Err())
}
