// SPDX-License-Identifier: Apache-2.0

package softdev

import (
	"sync"
	"time"

	"github.com/ramjet-rdma/ramjet/internal/base/clock"
	"github.com/ramjet-rdma/ramjet/internal/base/queue"
	"github.com/ramjet-rdma/ramjet/internal/system/runnable"
)

// Lane moves the data of queue pairs: a lock, and the state that passes share under it. Objects, keys and ports are the
// device's. Most devices have one lane; see docs/decisions/0022-lanes.md.
type Lane struct {
	dev       *Device
	transport Transport
	start     time.Time     // of the clock
	outbox    *queue.Outbox // completions and events of a pass
	alone     bool          // posts complete work requests without a pass

	Mu      dataLock
	changed []*QP // whose statistics may have changed
	Timers  timers
	pass    pass
	ended   uint32    // bindings of windows, as awaitAccesses found last
	broken  brokenQPs // by other lanes

	crowded   func() bool    // far more threads want to run than there are processors
	parker    Parker         // nil: programs do not park
	sleepers  sync.WaitGroup // programs that sleep at the port, or are about to
	spinner   spinner
	polls     polls
	sleep     sleep
	pollOwner pollOwner
	pace      pace

	pollWaiter PollWaiter // nil: threads cannot sleep outside of Go
}

// Transport sends and receives for a lane. Its methods are called with the lane's lock held, unless they say
// otherwise.
type Transport interface {
	// Receive delivers the packets that have arrived to their queue pairs, and returns how many it found.
	Receive() int
	// Respond sends the packets that may leave now, after Receive found n. polling says that a program makes this pass:
	// it will answer and poll again, or leave packets that are held back to the lane's goroutine. busy says that the
	// previous pass left work.
	Respond(polling bool, n int, busy bool)
	// Polling records that a program makes the next pass, which found from empty; nil: it waits in
	// memory.
	Polling(from *queue.CQ)
	// Long reports whether the previous pass moved a lot of data.
	Long(received int) bool
	// Flush sends the packets that are held back for the next poll: the program is going to sleep.
	Flush()
	// Pending reports whether something can be sent at once, and stalled whether something
	// waits for the network to take more.
	Pending() bool
	Stalled() bool

	// Arm is called before somebody waits, or parks, and not again until then. It returns false
	// if something has arrived, or is left to do, and to be looked at first.
	Arm() bool
	SetDeadline(t time.Time)
	// Wait blocks until something arrives, the deadline passes or wake is called; with
	// writable also until more can be sent. An error means that the device is closed. The
	// lock is not held.
	Wait(writable bool) error
	Waited() // a wait has ended
	Wake()   // with or without the lock

	// Publish copies counters for metrics. The view's lock is held, too.
	Publish()
}

// Engine is a lane's transport, and the outbox in which its queue pairs' completions and events gather.
type Engine struct {
	Transport Transport
	Outbox    *queue.Outbox
}

// init makes a lane of a device.
func (l *Lane) init(d *Device, e Engine, port PortState) {
	l.dev, l.transport, l.outbox = d, e.Transport, e.Outbox
	l.Mu.publish = l.publish
	l.Mu.InGroup(d, len(d.Lanes))
	l.start = d.start
	l.sleep = sleep{wakeup: make(chan struct{}, 1), done: make(chan struct{})}
	l.pollOwner.out = make(chan struct{}, 1)
	l.setPace(port)
	if parker, ok := port.(Parker); ok && parker.CanPark() {
		l.parker = parker
	}
	if w, ok := port.(PollWaiter); ok && w.Pollable() {
		l.pollWaiter = w
	}
	l.crowded = runnable.Crowded
}

// Now returns the lane's time.
func (l *Lane) Now() clock.Time { return clock.Time(time.Since(l.start)) }
