// SPDX-License-Identifier: Apache-2.0

package softdev

import (
	"github.com/ramjet-rdma/ramjet/internal/base/clock"
	"github.com/ramjet-rdma/ramjet/internal/base/memory"
	"github.com/ramjet-rdma/ramjet/internal/core/faults"
	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/verbs/driver"
	"github.com/ramjet-rdma/ramjet/verbs/metric"
)

// Fabric is the part of a [Device] that kinds differ in: the protocol of the queue pairs, and how their
// data gets to peers. Its methods are called with the device's lock held (those of all lanes), unless they say
// otherwise.
type Fabric interface {
	NewQP(pd memory.PD, init *verbs.QPInit) (QueuePair, error)
	NewAH(attr verbs.AHAttr) (driver.AH, error)
	// Adopt completes the creation of a shared receive queue.
	Adopt(s *SRQ, init *verbs.SRQInit)

	// Workers returns the peers that work in this process's memory now, with the results of their Work. A peer that
	// begins later knows which memory was withdrawn before.
	Workers() map[Worker]uint32

	// RefusesFault returns why a fault makes no sense; empty: it does. The lock is not held.
	RefusesFault(f *faults.Fault) string
	// Impair begins the faults' effects on the data that is sent and received; nil: it ends them.
	Impair(x *Faulty)

	// Counted returns the published counters. The view's lock is held, and the device's is not.
	Counted() []metric.Metric
	// SendRest sends the data that can still leave before the device is closed.
	SendRest()
	// Shut closes the device's sockets, and thereby ends wait. The device's goroutine may be
	// running, and the lock is not held.
	Shut() error
	// Free releases everything, when the goroutine has ended.
	Free() error
}

// Worker is a peer that works in this process's memory by itself. Work returns a number that is odd
// while it does, and then changes.
type Worker interface{ Work() uint32 }

// Protocol is a queue pair of a protocol engine.
type Protocol interface {
	Number() verbs.QPN
	State() verbs.QPState
	Modify(attr *verbs.QPAttr, mask verbs.QPMask) error
	Query() verbs.QPAttr
	Failure() *verbs.Failure
	Stats(*verbs.QPStats)
	Sample(at clock.Time) // of the next work request that is posted; 0: it is not measured
	Post(wrs []verbs.SendWR, all bool) (int, error)
	PostRecv(wrs []verbs.RecvWR) (int, error)
}

// Performer is the part of a queue pair that carries out some work requests at once.
type Performer interface {
	// Perform carries out a work request, if nothing else has to be done for that. Otherwise it does
	// nothing and returns false: the request is to be posted.
	Perform(*verbs.SendWR) bool
}

// QueuePair is a queue pair of a fabric, built on the common part.
type QueuePair interface {
	driver.QP
	Common() *QP

	// Change modifies the engine's queue pair, and handles the consequences.
	Change(attr *verbs.QPAttr, mask verbs.QPMask) error
	// Failed handles a change to the error state that no program requested.
	Failed()
	// Posted sends the work request that was just posted, unless it can join a send that is about to leave.
	Posted()
	// Received continues the messages that waited for receives, which were just posted.
	Received()
	// Release destroys the queue pair, or returns why it cannot.
	Release() error
}
