// SPDX-License-Identifier: Apache-2.0

package cm

import (
	"errors"
	"fmt"

	"github.com/ramjet-rdma/ramjet/verbs"
)

// Sentinels of this package, found with errors.Is.
var (
	ErrTimeout      = errors.New("no answer in time")
	ErrDisconnected = errors.New("the connection has ended")
	ErrAddrInUse    = errors.New("address and port are in use")
	ErrNoAddr       = errors.New("no such address")
)

// RejectReason is why a peer turned a connection down (IBTA 12.6.7.2, table 110).
type RejectReason uint16

const (
	ReasonNoQP           RejectReason = 1
	ReasonNoResources    RejectReason = 3
	ReasonTimeout        RejectReason = 4
	ReasonUnsupported    RejectReason = 5
	ReasonInvalidService RejectReason = 8 // nobody listens there
	ReasonStale          RejectReason = 10
	ReasonInvalidMTU     RejectReason = 26
	ReasonConsumer       RejectReason = 28 // the program said no: see PrivateData
)

func (r RejectReason) String() string { return fmt.Sprintf("reason %d", uint16(r)) }

// RejectError is the answer of a peer that does not want the connection.
type RejectError struct {
	Address     string // whom we asked
	Reason      RejectReason
	PrivateData []byte // what it said; not cut to what the program wrote: the message has a fixed length
}

func (e *RejectError) Error() string {
	if e.Reason == ReasonInvalidService {
		return "cm: " + e.Address + ": connection refused: nobody listens there (" + e.Reason.String() + ")"
	}
	return "cm: " + e.Address + ": connection rejected: " + e.Reason.String()
}

func opErr(op string, err error, format string, a ...any) error {
	return &verbs.OpError{Op: op, Err: err, Detail: fmt.Sprintf(format, a...)}
}
