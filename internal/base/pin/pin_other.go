// SPDX-License-Identifier: Apache-2.0

//go:build !unix

package pin

import "github.com/ramjet-rdma/ramjet/verbs"

var errNoLock = &verbs.OpError{Op: "reg_mr", Err: verbs.ErrNotSupported, Detail: "there is no mlock on this system"}

func lockOnFault(from, to uintptr) error              { return errNoLock }
func canWait() error                                  { return errNoLock }
func lock(from, to uintptr) error                     { return errNoLock }
func unlock(from, to uintptr)                         {}
func refused(err error, from, to, held uintptr) error { return err }

// Prefetch is not supported.
func Prefetch(b []byte, write bool) error {
	return &verbs.OpError{Op: "advise_mr", Err: verbs.ErrNotSupported}
}
