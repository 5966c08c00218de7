// SPDX-License-Identifier: Apache-2.0

// Package usage marks usage errors: an impossible flag value, a device that does not exist. The
// packages behind commands return them. By them the command's exit status tells usage errors from
// failures.
package usage

import "fmt"

// Error is a usage error.
type Error struct{ err error }

func (e Error) Error() string { return e.err.Error() }

func (e Error) Unwrap() error { return e.err }

// Of makes err a usage error.
func Of(err error) error { return Error{err} }

// Errorf is fmt.Errorf for usage errors.
func Errorf(format string, a ...any) error { return Error{fmt.Errorf(format, a...)} }
