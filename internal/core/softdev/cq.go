// SPDX-License-Identifier: Apache-2.0

package softdev

import (
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/ramjet-rdma/ramjet/internal/base/queue"
	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/verbs/driver"
)

// CQ is a completion queue.
type CQ struct {
	dev       *Device
	Queue     *queue.CQ
	events    driver.CQEvents
	num       uint32 // for observers
	listIndex int
	deferred  bool // nobody waits for it so that it matters
	// lanes are the lanes that feed the queue, if the device has several; changed with the device's lock.
	lanes atomic.Pointer[[]*Lane]
}

// FedBy notes that a lane completes work requests in the queue, and returns it. The device's lock is held.
func (c *CQ) FedBy(l *Lane) *queue.CQ {
	if lanes := c.feeders(); len(c.dev.Lanes) > 1 && !slices.Contains(lanes, l) {
		lanes = append(slices.Clip(lanes), l)
		c.lanes.Store(&lanes)
		if len(lanes) > 1 {
			c.Queue.PushFromSeveral()
			c.WakeSleeper() // which sleeps at the socket of one
		}
	}
	return c.Queue
}

// feeders returns the lanes that feed the queue.
func (c *CQ) feeders() []*Lane {
	if len(c.dev.Lanes) == 1 {
		return c.dev.Lanes
	}
	if lanes := c.lanes.Load(); lanes != nil {
		return *lanes
	}
	return nil
}

// CreateCQ creates a completion queue.
func (d *Device) CreateCQ(cqe int, ev driver.CQEvents) (driver.CQ, error) {
	if cqe > maxCQE {
		return nil, badCQE("create_cq", cqe)
	}
	d.Lock()
	defer d.Unlock()
	if d.Closed.Load() {
		return nil, verbs.ErrClosed
	}
	if err := d.refuses("create_cq", nil); err != nil {
		return nil, err
	}
	if err := d.Counts.completionQueues.Add(); err != nil {
		return nil, err
	}
	d.nextCQ++
	c := &CQ{dev: d, Queue: queue.NewCQ(cqe, d.shared.NIC, ev), events: ev, num: d.nextCQ}
	addObject(d, &d.objects.cqs, c)
	return c, nil
}

func badCQE(op string, cqe int) error {
	return &verbs.OpError{Op: op, Err: verbs.ErrInvalid,
		Detail: fmt.Sprintf("%d entries: a completion queue has 1 to %d", cqe, maxCQE)}
}

// Poll takes completions; if there are none it moves data and looks again.
func (c *CQ) Poll(wcs []verbs.WC) int {
	d := c.dev
	if len(d.Lanes) > 1 {
		return c.pollLanes(wcs)
	}
	if n := c.Queue.Poll(wcs); n > 0 {
		c.noteFound(n)
		return n
	}
	if !d.Lane.alone {
		d.Lane.noted(1)
	}
	if d.Lane.sleepsNext() || !d.Lane.Mu.TryLock() {
		return d.Lane.polledNothing(0) // the sleep or somebody else moves data
	}
	if d.Lane.alone {
		d.Lane.tally()
	}
	moved, n := 0, 0
	atOnce := d.Lane.spinner.parksAtOnce()
	if !atOnce {
		moved = d.Lane.poll(c.Queue)
		n = c.Queue.Poll(wcs)
	}
	switch {
	case n > 0 || moved > 0:
		d.Lane.spinner.found()
	case d.Lane.parked():
		moved = d.Lane.poll(c.Queue)
		n = c.Queue.Poll(wcs)
		d.Lane.spinner.woke(d.Lane.Now(), n > 0 || moved > 0)
	case atOnce:
		d.Lane.poll(c.Queue)
		n = c.Queue.Poll(wcs)
	}
	d.Lane.Mu.Unlock()
	return d.Lane.polledNothing(n)
}

// pollLanes is Poll of a queue that several lanes may feed. A poll that finds nothing at first makes a pass on each of
// them. Only such polls count as polls of the lanes, so a lane never waits for a program that makes no passes on it.
func (c *CQ) pollLanes(wcs []verbs.WC) int {
	if n := c.Queue.Poll(wcs); n > 0 {
		return n
	}
	c.passes()
	return c.Queue.Poll(wcs)
}

// passes makes a pass on each lane that feeds the queue, for a poll that found nothing.
func (c *CQ) passes() {
	for _, l := range c.feeders() {
		l.noted(1)
		if l.Mu.TryLock() { // else somebody else moves its data
			l.poll(c.Queue)
			l.Mu.Unlock()
		}
	}
}

// Sleeps reports whether programs that wait for the queue's completions can sleep in Sleep: not in virtual time, which
// passes while they wait for the device's goroutine.
func (c *CQ) Sleeps() bool { return c.dev.Lane.pace.virtual == nil }

// SleepsAtOnce reports whether programs that wait never poll before they sleep.
func (c *CQ) SleepsAtOnce() bool { return c.dev.eventsOnly }

// Sleep is [Device.Sleep] at the one lane that feeds the queue. Where several do, it polls for spin at most, and
// returns false if that finds nothing: the lanes' goroutines move the data.
func (c *CQ) Sleep(awake func() bool, armed func() int, spin time.Duration) bool {
	if l := c.onlyLane(); l != nil {
		return l.sleepFor(c, awake, armed, spin)
	}
	for end := time.Now().Add(spin); time.Now().Before(end); {
		for range lookAfter {
			if c.passes(); !c.Queue.Empty() {
				return true
			}
		}
	}
	return false
}

// WakeSleeper has Sleep call awake again.
func (c *CQ) WakeSleeper() {
	for _, l := range c.feeders() {
		l.transport.Wake()
	}
}

// onlyLane returns the one lane that completes work requests in the queue; nil: others may, too. While faults are
// injected, the first lane delivers completions that are late.
func (c *CQ) onlyLane() *Lane {
	lanes := c.feeders()
	if len(lanes) != 1 || len(c.dev.Lanes) > 1 && c.dev.faulty.Load() != nil {
		return nil
	}
	return lanes[0]
}

const (
	// tallied is how many polls that each find one completion are noted together.
	tallied = 8
	// passEvery is the most completions between two passes where posts alone complete the work requests that a program
	// polls for. The pass then takes the data that has arrived.
	passEvery = 64
)

// noteFound notes a poll that found n completions without a pass.
func (c *CQ) noteFound(n int) {
	d, all := c.dev, c.Queue.Polled()
	switch {
	case n > 1 || d.Lane.polls.movedMuch.Load():
		d.Lane.noted(1)
	case all%tallied == 0:
		d.Lane.polls.pollers.wake(tallied - 1)
		d.Lane.noted(tallied)
	}
	if d.Lane.alone && all%passEvery < uint32(n) && d.Lane.Mu.TryLock() {
		d.Lane.poll(c.Queue)
		if d.Lane.sleep.waiting && !d.Lane.pollOwner.owned {
			d.Lane.transport.Wake() // no message would: the goroutine is to see that a program polls
		}
		d.Lane.Mu.Unlock()
	}
}

// tally notes a poll that found nothing at first, with the polls before it that were not noted. The lock is held.
func (l *Lane) tally() {
	if l.polls.unnoted++; l.polls.unnoted < tallied && !l.polls.movedMuch.Load() {
		return
	}
	l.polls.pollers.wake(l.polls.unnoted - 1)
	l.noted(l.polls.unnoted)
	l.polls.unnoted = 0
}

// noted notes polls.
func (l *Lane) noted(n uint32) {
	if l.polls.movedMuch.Load() {
		l.polls.movedMuch.Store(false)
		l.polledRarely()
		return
	}
	l.polled(n)
}

// ReqNotify asks for an event: the program is going to sleep, so the device's goroutine
// takes over.
func (c *CQ) ReqNotify(solicitedOnly bool) error {
	d := c.dev
	if err := d.FailCall("req_notify_cq"); err != nil {
		return err
	}
	c.Queue.ReqNotify(solicitedOnly)
	if d.Closed.Load() {
		return verbs.ErrClosed
	}
	for _, l := range c.feeders() {
		if err := l.takeOver(); err != nil {
			return err
		}
	}
	return nil
}

// takeOver has the lane's goroutine take over from a program that goes to sleep.
func (l *Lane) takeOver() error {
	l.Mu.Lock()
	defer l.Mu.Unlock()
	if l.dev.Closed.Load() {
		return verbs.ErrClosed
	}
	l.spinner.found() // how long it sleeps says nothing about the processor
	l.programSleeps()
	return nil
}

func (c *CQ) Resize(cqe int) error {
	if cqe <= 0 || cqe > maxCQE {
		return badCQE("resize_cq", cqe)
	}
	c.dev.Lock()
	defer c.dev.Unlock()
	if err := c.dev.refuses("resize_cq", nil); err != nil {
		return err
	}
	return c.Queue.Resize(cqe)
}

// OmitTimestamps has completions carry no timestamps.
func (c *CQ) OmitTimestamps() { c.Queue.Untimed = true }

// Defer has the device's goroutine not hurry for programs that wait for the queue.
func (c *CQ) Defer() {
	c.dev.Lock()
	defer c.dev.Unlock()
	c.deferred = true
}

// Empty reports whether there is nothing to poll for.
func (c *CQ) Empty() bool { return c.Queue.Empty() }

func (c *CQ) Capacity() int { return c.Queue.Capacity() }
func (c *CQ) Err() error    { return c.Queue.Err() }

func (c *CQ) Destroy() error {
	c.dev.Lock()
	defer c.dev.Unlock()
	removeObject(c.dev, &c.dev.objects.cqs, c)
	c.dev.Counts.completionQueues.Remove()
	return nil
}
