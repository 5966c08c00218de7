// SPDX-License-Identifier: Apache-2.0

package softdev

import (
	"github.com/ramjet-rdma/ramjet/internal/base/clock"
	"github.com/ramjet-rdma/ramjet/internal/base/memory"
	"github.com/ramjet-rdma/ramjet/internal/core/faults"
	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/verbs/driver"
)

// fabric is the part of a [Device] that kinds differ in: the protocol of the queue pairs, and how their
// data gets to peers. Its methods are called with the device's lock held, unless they say
// otherwise.
type fabric interface {
	transport

	newQP(pd memory.PD, init *verbs.QPInit) (queuePair, error)
	newAH(attr verbs.AHAttr) (driver.AH, error)
	// adopt completes the creation of a shared receive queue.
	adopt(s *srq, init *verbs.SRQInit)

	// workers returns the peers that work in this process's memory now, with what their Work returns.
	// A peer that begins later knows what was withdrawn before.
	workers() map[Worker]uint32

	// refusesFault returns why a fault makes no sense; empty: it does. The lock is not held.
	refusesFault(f *faults.Fault) string
	// impair begins what faults do to what is sent and received; nil: nothing any more.
	impair(x *faulty)

	// publish copies counters for metrics. The view's lock is held, too.
	publish()
	// metrics returns what was published. The lock is not held.
	metrics() []verbs.Metric
	// drain sends what can be sent before the device is closed.
	drain()
	// shut closes the device's sockets, and thereby ends wait. The device's goroutine may be
	// running, and the lock is not held.
	shut() error
	// free releases everything, when the goroutine has ended.
	free() error
}

// Worker is a peer that works in this process's memory by itself. Work returns a number that is odd
// while it does, and then changes.
type Worker interface{ Work() uint32 }

// protocol is a queue pair of a protocol engine.
type protocol interface {
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

// performer is the part of a queue pair that carries out some work requests at once.
type performer interface {
	// perform carries out a work request, if nothing else has to be done for that. Otherwise it does
	// nothing and returns false: the request is to be posted.
	perform(*verbs.SendWR) bool
}

// queuePair is a queue pair of a fabric, built on the common part.
type queuePair interface {
	driver.QP
	common() *qp

	// change modifies the engine's queue pair, and handles the consequences.
	change(attr *verbs.QPAttr, mask verbs.QPMask) error
	// failed handles a change to the error state that no program requested.
	failed()
	// posted sends what was just posted, unless it can join a send that is about to leave.
	posted()
	// received continues what waited for receives, which were just posted.
	received()
	// release destroys the queue pair, or returns why it cannot.
	release() error
}
