// SPDX-License-Identifier: Apache-2.0

package cm

import (
	"errors"
	"fmt"

	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/wire/mad"
)

// Sentinels of this package, found with errors.Is.
var (
	ErrTimeout      = errors.New("no answer in time")
	ErrDisconnected = errors.New("the connection has ended")
	ErrAddrInUse    = errors.New("address and port are in use")
	ErrNoAddr       = errors.New("no such address")
)

// RejectReason is why a peer turned a connection down (IBTA 12.6.7.2); its String is the
// reason in words.
type RejectReason = mad.Reason

// The reasons that programs meet most; package mad has the others.
const (
	ReasonInvalidService RejectReason = mad.RejInvalidServiceID // nobody listens there
	ReasonConsumer       RejectReason = mad.RejConsumer         // the program said no: see PrivateData
	ReasonNoResources    RejectReason = mad.RejNoResources      // too many wait at the listener
	ReasonTimeout        RejectReason = mad.RejTimeout
	ReasonStale          RejectReason = mad.RejStaleConnection
	ReasonInvalidMTU     RejectReason = mad.RejInvalidPathMTU
)

// RejectError is the answer of a peer that does not want the connection.
type RejectError struct {
	Address     string // whom we asked
	Reason      RejectReason
	PrivateData []byte // what it said; not cut to what the program wrote: the message has a fixed length
}

func (e *RejectError) Error() string {
	if e.Reason == ReasonInvalidService {
		return "cm: " + e.Address + ": connection refused: no listener (" + e.Reason.String() + ")"
	}
	return "cm: " + e.Address + ": connection rejected: " + e.Reason.String()
}

func opErr(op string, err error, format string, a ...any) error {
	return &verbs.OpError{Op: op, Err: err, Detail: fmt.Sprintf(format, a...)}
}
