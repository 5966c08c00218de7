// SPDX-License-Identifier: Apache-2.0

package ibcm

import (
	"errors"

	"github.com/ramjet-rdma/ramjet/verbs"
)

// Errors that commands return inside a [*verbs.OpError], beside those of verbs.
var (
	// ErrNotFound: no such connection or listener.
	ErrNotFound = verbs.ErrNotFound
	// ErrInUse: there is a listener for this service already.
	ErrInUse = errors.New("service ID in use")
)
