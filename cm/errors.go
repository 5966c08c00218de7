// SPDX-License-Identifier: Apache-2.0

package cm

import (
	"errors"
	"fmt"
	"syscall"

	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/wire/mad"
)

// Sentinels of this package, found with errors.Is. Some are also system errors.
var (
	ErrTimeout      error = &sentinel{"no answer in time", syscall.ETIMEDOUT}
	ErrDisconnected       = errors.New("the connection has ended")
	ErrAddrInUse    error = &sentinel{"address and port are in use", syscall.EADDRINUSE}
	ErrNoAddr       error = &sentinel{"no such address", syscall.EADDRNOTAVAIL}
)

// sentinel is an error that is also an errno.
type sentinel struct {
	text  string
	errno syscall.Errno
}

func (e *sentinel) Error() string        { return e.text }
func (e *sentinel) Is(target error) bool { return target == e.errno }

// RejectReason is why a peer rejected a connection (IBTA 12.6.7.2). Its String is the reason in
// words.
type RejectReason = mad.Reason

// The most common reasons; package mad has the others.
const (
	ReasonInvalidService RejectReason = mad.RejInvalidServiceID // no listener has the port
	ReasonConsumer       RejectReason = mad.RejConsumer         // the program rejected it: see PrivateData
	ReasonNoResources    RejectReason = mad.RejNoResources      // the listener's backlog is full
	ReasonTimeout        RejectReason = mad.RejTimeout
	ReasonStale          RejectReason = mad.RejStaleConnection
	ReasonInvalidMTU     RejectReason = mad.RejInvalidPathMTU
	// ReasonInvalidTransport: the listener has queue pairs of another type, see ID.SetQPType.
	ReasonInvalidTransport RejectReason = mad.RejInvalidTransportType
)

// RejectError is a peer's rejection of a connection. errors.Is finds syscall.ECONNREFUSED in it.
type RejectError struct {
	Address     string // the address that was dialed
	Reason      RejectReason
	PrivateData []byte // the peer's; not cut to the length that the peer's program gave: the message has a fixed length
}

// Error returns the reason, in words.
func (e *RejectError) Error() string {
	if e.Reason == ReasonInvalidService {
		return "cm: " + e.Address + ": connection refused: no listener (" + e.Reason.String() + ")"
	}
	return "cm: " + e.Address + ": connection rejected: " + e.Reason.String()
}

// Is makes errors.Is find the error that programs on sockets know.
func (e *RejectError) Is(target error) bool { return target == syscall.ECONNREFUSED }

func opErr(op string, err error, format string, a ...any) error {
	return &verbs.OpError{Op: op, Err: err, Detail: fmt.Sprintf(format, a...)}
}
