// SPDX-License-Identifier: Apache-2.0

package softdev

import (
	"sync"
	"time"

	"github.com/ramjet-rdma/ramjet/internal/base/clock"
	"github.com/ramjet-rdma/ramjet/internal/base/queue"
	"github.com/ramjet-rdma/ramjet/internal/system/runnable"
)

// lane moves the data of queue pairs: a lock, and what happens under it from pass to pass. Objects, keys
// and ports are the device's. A device has one lane; docs/decisions/0022-lanes.md says what more of them
// would take.
type lane struct {
	dev       *Device
	transport transport
	start     time.Time     // of the clock
	outbox    *queue.Outbox // completions and events of a pass
	alone     bool          // posts complete work requests without a pass

	mu      dataLock
	closed  bool
	changed []*qp // whose statistics may have changed
	timers  timers
	pass    pass

	crowded   func() bool // far more threads want to run than there are processors
	dozer     Dozer       // nil: nobody dozes
	dozes     sync.WaitGroup
	spinner   spinner
	polls     polls
	sleep     sleep
	pollOwner pollOwner
	pace      pace
}

// transport sends and receives for a lane. Its methods are called with the lane's lock held, unless they say
// otherwise.
type transport interface {
	// receive delivers what has arrived to its queue pairs, and returns how much it found.
	receive() int
	// respond sends what may be sent now, after receive found n. polling says that a program makes
	// this pass: it will answer and poll again, or leave what is held back to the lane's
	// goroutine. busy says that the previous pass left something to do.
	respond(polling bool, n int, busy bool)
	// polling records that a program makes the next pass, which found from empty; nil: it waits in
	// memory.
	polling(from *queue.CQ)
	// long reports whether the previous pass moved a lot of data.
	long(received int) bool
	// flush sends what is held back for the next poll: the program is going to sleep.
	flush()
	// pending reports whether something can be sent at once, and stalled whether something
	// waits for the network to take more.
	pending() bool
	stalled() bool

	// arm is called before somebody waits, or dozes, and not again until then. It returns false
	// if something has arrived, or is left to do, and to be looked at first.
	arm() bool
	setDeadline(t time.Time)
	// wait blocks until something arrives, the deadline passes or wake is called; with
	// writable also until more can be sent. An error means that the device is closed. The
	// lock is not held.
	wait(writable bool) error
	wake() // with or without the lock
}

// init makes the lane of a device.
func (l *lane) init(d *Device, m transport, port PortState, outbox *queue.Outbox) {
	l.dev, l.transport, l.outbox = d, m, outbox
	l.mu.publish = d.publish
	l.start = time.Now().Add(-time.Second) // no time of the engine is zero
	l.sleep = sleep{wakeup: make(chan struct{}, 1), done: make(chan struct{})}
	l.pollOwner.out = make(chan struct{}, 1)
	l.setPace(port)
	if dozer, ok := port.(Dozer); ok && dozer.Dozes() {
		l.dozer = dozer
	}
	l.crowded = runnable.Crowded
}

// now returns the lane's time.
func (l *lane) now() clock.Time { return clock.Time(time.Since(l.start)) }
