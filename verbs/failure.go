// SPDX-License-Identifier: Apache-2.0

package verbs

import (
	"fmt"
	"strings"
)

// Reason says which check failed, beyond a [Status]. It is [WC.VendorErr] of a completion in error.
type Reason uint8

const (
	ReasonUnknown     Reason = iota // there is no reason, or it is not known
	ReasonNoKey                     // no region or window has the key, or it has ended
	ReasonOtherOwner                // the key belongs to another protection domain, or a window to another queue pair
	ReasonOutside                   // the range is not within the memory of the key
	ReasonNoRight                   // the key does not allow the access
	ReasonQPAccess                  // the queue pair does not allow the operation, see QPAttr.Access
	ReasonMisaligned                // the address of an atomic is not a multiple of 8
	ReasonTooLong                   // the message is longer than the receive, or than the device takes
	ReasonTooMany                   // more READs and atomics at once than QPAttr.MaxDestRdAtomic
	ReasonUnmapped                  // the memory of the key is no longer mapped
	ReasonNoAnswer                  // no acknowledgement came, in spite of all retries
	ReasonNotReady                  // the peer had no receive posted, in spite of all retries
	ReasonPeerRefused               // the peer refused it; its side knows which check did
	ReasonMalformed                 // a request or response that does not fit the one before it
	ReasonNotEight                  // the list of an atomic, or of an atomic WRITE, has not 8 bytes
	ReasonPeerClosed                // the peer closed the connection in an orderly way
)

// String says it in a few words.
func (r Reason) String() string {
	return name([]string{"not known", "no such key", "key of another owner", "out of bounds", "access not allowed",
		"not allowed on the queue pair", "misaligned address", "message too long", "too many READs and atomics",
		"memory not mapped", "no answer", "no receive posted",
		"refused by the peer", "malformed", "an atomic takes 8 bytes", "closed by the peer"}, r)
}

// FailureSide says whose work failed.
type FailureSide uint8

const (
	FailedSend      FailureSide = iota // a send work request of this side
	FailedRecv                         // a receive of this side
	FailedRequest                      // a request of the peer, which this side refused
	FailedCompleted                    // a send of this side that had completed when the peer refused it (iWARP)
	FailedStream                       // none of them: the connection ended
)

// Failure describes the error that stopped a queue pair: which check refused which request, with the
// numbers. It does not change.
//
// Over RoCE and InfiniBand the responder tells the requester no more than the code of a NAK
// (IBTA 9.7.5.2). So the requester knows its request, and the responder the check that refused it. Over
// iWARP and shared memory the responder names the check: see Detail.
type Failure struct {
	QPN    QPN
	Side   FailureSide
	Status Status // of the completion; of a refused request, that of the peer's completion
	Reason Reason
	Op     WCOp
	ID     uint64 // of the work request of this side; 0: it is not known, or is the peer's
	PSN    PSN    // of the packet, where HasPSN
	HasPSN bool
	Detail string // further facts: the peer's own words, the number of tries, the limit

	// The memory that the check refused, if it was about memory: an entry of the list, the range that the peer
	// requested, or the range that was requested of the peer.
	Key    Key
	Addr   uint64
	Length uint64
	Need   Access

	// The memory that the key names on this side; all zero: it names none.
	MemAddr uint64
	MemLen  uint64
	Allows  Access
}

// HasMemory reports whether the failure is about memory.
func (f *Failure) HasMemory() bool { return f.Key != 0 || f.Addr != 0 || f.Length != 0 }

// String says all that is known, in one line.
func (f *Failure) String() string {
	var b strings.Builder
	switch f.Side {
	case FailedSend:
		fmt.Fprintf(&b, "%v (work request %d) failed: %v", f.Op, f.ID, f.Status)
	case FailedRecv:
		fmt.Fprintf(&b, "receive %d failed: %v", f.ID, f.Status)
	case FailedRequest:
		fmt.Fprintf(&b, "refused the peer's %v: %v", f.Op, f.Status)
	case FailedCompleted:
		fmt.Fprintf(&b, "%v failed after its completion: %v", f.Op, f.Status)
	default:
		b.WriteString("the connection ended")
		if f.Status != StatusWRFlushError {
			fmt.Fprintf(&b, ": %v", f.Status)
		}
	}
	if f.HasPSN {
		fmt.Fprintf(&b, ", PSN %d", uint32(f.PSN))
	}
	if f.Reason != ReasonUnknown {
		fmt.Fprintf(&b, ": %v", f.Reason)
	}
	if f.Detail != "" {
		fmt.Fprintf(&b, " (%s)", f.Detail)
	}
	switch {
	case !f.HasMemory():
		return b.String()
	case f.Side == FailedRecv && f.Reason == ReasonTooLong:
		fmt.Fprintf(&b, ": the receive has %d bytes", f.Length)
		return b.String()
	case f.Reason == ReasonNotEight:
		fmt.Fprintf(&b, ", and the list has %d", f.Length)
		return b.String()
	}
	fmt.Fprintf(&b, ": %d bytes at %#x, key 0x%08x", f.Length, f.Addr, uint32(f.Key))
	switch f.Reason {
	case ReasonOutside:
		fmt.Fprintf(&b, ", which has %d bytes at %#x", f.MemLen, f.MemAddr)
	case ReasonNoRight:
		fmt.Fprintf(&b, ", which allows %s and not %v", orNothing(f.Allows), f.Need)
	case ReasonQPAccess:
		fmt.Fprintf(&b, ": it allows %s and not %v", orNothing(f.Allows), f.Need)
	}
	return b.String()
}

func orNothing(a Access) string {
	if a == 0 {
		return "nothing"
	}
	return a.String()
}

// Failure returns why the queue pair failed: the first failure since it was created, reset, or recovered from
// SQE. nil: it did not, or the device does not know.
func (qp *QP) Failure() *Failure {
	f := qp.drv.Failure()
	if c := qp.dev.checks; c != nil {
		return c.Name(f)
	}
	return f
}
