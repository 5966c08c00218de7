// SPDX-License-Identifier: Apache-2.0

package rnet

import (
	"context"
	"errors"
	"os"
	"syscall"
)

// timeoutError is an error of something that took too long, for [net.Error].
type timeoutError struct{ error }

func (timeoutError) Timeout() bool   { return true }
func (timeoutError) Temporary() bool { return true }
func (e timeoutError) Unwrap() error { return e.error }

// withTimeout gives err the method Timeout if it is about something that took too long:
// [net.OpError] asks the error that it holds for it, and not those behind.
func withTimeout(err error) error {
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
