// SPDX-License-Identifier: Apache-2.0

package driver

import (
	"time"

	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/verbs/internal/hook"
)

// CQEvents are the calls that a driver makes for a completion queue. They do not block
// and may come from any goroutine, also from within another call of the driver.
type CQEvents = struct {
	Completion func() // a completion of the requested kind has arrived
	Error      func() // the queue overflowed
}

// CQ is a completion queue of a driver.
type CQ = interface {
	Poll(wcs []verbs.WC) int
	ReqNotify(solicitedOnly bool) error
	Resize(cqe int) error
	Capacity() int
	Empty() bool  // there is nothing to poll; asked by goroutines that sleep in a Sleeper
	Err() error   // ErrOverflow once completions were lost
	Yields() bool // polls that find nothing yield to other goroutines by themselves
	// OmitTimestamps says that the program wants no timestamps of completions. It is called before the queue is
	// used.
	OmitTimestamps()
	// Defer says that completions can wait while other queues are busy: see [verbs.CQOptions].
	Defer()
	Destroy() error
}

// SRQ is a shared receive queue of a driver.
type SRQ = interface {
	PostRecv(wrs []verbs.RecvWR) (int, error)
	Modify(attr verbs.SRQAttr, mask verbs.SRQMask) error
	Query() verbs.SRQAttr
	Num() uint32 // XRC: the number that senders name
	Destroy() error
}

// QP is a queue pair of a driver. It retains no reference to work requests.
type QP = interface {
	Num() verbs.QPN
	// Modify checks the transition with CheckTransition and carries it out.
	Modify(attr *verbs.QPAttr, mask verbs.QPMask) error
	Query() verbs.QPAttr
	Stats() (verbs.QPStats, error) // called as Device.Metrics is
	// Failure returns the first failure since the queue pair was created, reset, or
	// recovered from SQE; nil: there was none, or the driver does not know.
	Failure() *verbs.Failure
	PostSend(wrs []verbs.SendWR) (int, error)
	PostSendAll(wrs []verbs.SendWR) error
	PostRecv(wrs []verbs.RecvWR) (int, error)
	AttachMulticast(gid verbs.GID, lid uint16) error
	DetachMulticast(gid verbs.GID, lid uint16) error
	Destroy() error
}

// Sleeper is a [CQ] in which a goroutine that waits for completions can sleep by itself: one thread is woken then,
// where the driver's own would wake a second one. It is also a [Device], for programs that wait at a channel.
type Sleeper interface {
	// Sleeps reports whether goroutines can: elsewhere Sleep always returns false.
	Sleeps() bool
	// SleepsAtOnce reports whether goroutines that wait do so without polling first.
	SleepsAtOnce() bool
	// Sleep moves data until awake returns true. While none arrives it polls, for spin at most, and then
	// sleeps. It returns false at once if another goroutine moves the data. At a channel armed returns how many of its
	// queues are armed: others wait for any more. It is nil at a queue.
	Sleep(awake func() bool, armed func() int, spin time.Duration) bool
	// WakeSleeper has Sleep call awake again.
	WakeSleeper()
}

// UnsupportedCQ answers for a [CQ] that cannot be resized, has its timestamps at no cost, and does not yield.
type UnsupportedCQ struct{}

func (UnsupportedCQ) Resize(int) error { return verbs.ErrNotSupported }
func (UnsupportedCQ) Empty() bool      { return false }
func (UnsupportedCQ) Yields() bool     { return false }
func (UnsupportedCQ) OmitTimestamps()  {}
func (UnsupportedCQ) Defer()           {}

// UnsupportedSRQ answers every call of an [SRQ] that a driver may lack with ErrNotSupported; its queues are
// not for XRC.
type UnsupportedSRQ struct{}

func (UnsupportedSRQ) Modify(verbs.SRQAttr, verbs.SRQMask) error { return verbs.ErrNotSupported }
func (UnsupportedSRQ) Num() uint32                               { return 0 }

// UnsupportedQP answers every call of a [QP] that a driver may lack with ErrNotSupported, and knows of no
// failure.
type UnsupportedQP struct{}

func (UnsupportedQP) Stats() (verbs.QPStats, error)           { return verbs.QPStats{}, verbs.ErrNotSupported }
func (UnsupportedQP) Failure() *verbs.Failure                 { return nil }
func (UnsupportedQP) AttachMulticast(verbs.GID, uint16) error { return verbs.ErrNotSupported }
func (UnsupportedQP) DetachMulticast(verbs.GID, uint16) error { return verbs.ErrNotSupported }

var (
	cqOf            = hook.CQOf.(func(*verbs.CQ) CQ)
	srqOf           = hook.SRQOf.(func(*verbs.SRQ) SRQ)
	qpOf            = hook.QPOf.(func(*verbs.QP) QP)
	checkTransition = hook.CheckTransition.(func(verbs.QPType, verbs.QPState, *verbs.QPAttr,
		verbs.QPMask) (verbs.QPState, error))
)

// CQOf returns the driver's part of a completion queue.
func CQOf(cq *verbs.CQ) CQ { return cqOf(cq) }

// SRQOf returns the driver's part of a shared receive queue.
func SRQOf(s *verbs.SRQ) SRQ { return srqOf(s) }

// QPOf returns the driver's part of a queue pair.
func QPOf(qp *verbs.QP) QP { return qpOf(qp) }

// CheckTransition reports whether a queue pair of type t in state cur may be modified so, and to
// which state that leads. Drivers call it with their lock held. The error names the attribute that
// is missing, not allowed, or out of range.
func CheckTransition(t verbs.QPType, cur verbs.QPState, attr *verbs.QPAttr, mask verbs.QPMask) (verbs.QPState, error) {
	return checkTransition(t, cur, attr, mask)
}
