// SPDX-License-Identifier: Apache-2.0

package ibcm

import (
	"errors"
	"fmt"

	"github.com/ramjet-rdma/ramjet/verbs"
)

// Errors that commands return inside a [*verbs.OpError], in addition to those of verbs.
var (
	// ErrNotFound: no such connection or listener.
	ErrNotFound = verbs.ErrNotFound
	// ErrInUse: there is a listener for this service already.
	ErrInUse = errors.New("service ID in use")
)

func opErr(op string, err error, detail string) error {
	return &verbs.OpError{Op: op, Err: err, Detail: detail}
}

func invalid(op, detail string) error { return opErr(op, verbs.ErrInvalid, detail) }

func wrongState(op, detail string) error { return opErr(op, verbs.ErrState, detail) }

func tooLong(op string, n int, message string, room int) error {
	return invalid(op, fmt.Sprintf("%d bytes of private data; %s has room for %d", n, message, room))
}

func full(op string) error {
	return opErr(op, verbs.ErrNoMemory, "too many connections; raise Config.MaxConnections or close some")
}

// setDefault sets a zero value to the default.
func setDefault[T comparable](v *T, d T) {
	var zero T
	if *v == zero {
		*v = d
	}
}
