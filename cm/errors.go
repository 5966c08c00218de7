// SPDX-License-Identifier: Apache-2.0

package cm

import (
	"errors"
	"fmt"
	"syscall"

	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/wire/mad"
)

// Sentinels of this package, found with errors.Is; some of them also as what a system says.
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
	// ReasonInvalidTransport: who listens there has queue pairs of another type, see ID.SetQPType.
	ReasonInvalidTransport RejectReason = mad.RejInvalidTransportType
)

// RejectError is the answer of a peer that does not want the connection. errors.Is finds
// syscall.ECONNREFUSED in it.
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

// Is makes it the error that programs on sockets know.
func (e *RejectError) Is(target error) bool { return target == syscall.ECONNREFUSED }

func opErr(op string, err error, format string, a ...any) error {
	return &verbs.OpError{Op: op, Err: err, Detail: fmt.Sprintf(format, a...)}
}
