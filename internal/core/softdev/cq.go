// SPDX-License-Identifier: Apache-2.0

package softdev

import (
	"fmt"

	"github.com/ramjet-rdma/ramjet/internal/base/queue"
	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/verbs/driver"
)

// cq is a completion queue.
type cq struct {
	dev       *Device
	q         *queue.CQ
	events    driver.CQEvents
	num       uint32 // for observers
	listIndex int
}

// CreateCQ creates a completion queue.
func (d *Device) CreateCQ(cqe int, ev driver.CQEvents) (driver.CQ, error) {
	if cqe > maxCQE {
		return nil, badCQE("create_cq", cqe)
	}
	d.lane.mu.Lock()
	defer d.lane.mu.Unlock()
	if d.lane.closed {
		return nil, verbs.ErrClosed
	}
	if err := d.refuses("create_cq", nil); err != nil {
		return nil, err
	}
	if err := d.counts.completionQueues.add(); err != nil {
		return nil, err
	}
	d.nextCQ++
	c := &cq{dev: d, q: queue.NewCQ(cqe, d.shared.NIC, ev), events: ev, num: d.nextCQ}
	addObject(d, &d.objects.cqs, c)
	return c, nil
}

func badCQE(op string, cqe int) error {
	return &verbs.OpError{Op: op, Err: verbs.ErrInvalid, Detail: fmt.Sprintf("%d entries: a completion queue has 1 to %d", cqe, maxCQE)}
}

// Poll takes completions; if there are none it moves data and looks again.
func (c *cq) Poll(wcs []verbs.WC) int {
	d := c.dev
	if n := c.q.Poll(wcs); n > 0 {
		c.noteFound(n)
		return n
	}
	if !d.lane.alone {
		d.lane.noted(1)
	}
	if !d.lane.mu.TryLock() {
		return d.lane.polledNothing(0) // somebody else moves data
	}
	if d.lane.alone {
		d.lane.tally()
	}
	moved := d.lane.poll(c.q)
	n := c.q.Poll(wcs)
	if n > 0 || moved > 0 {
		d.lane.spinner.found()
	} else if d.lane.dozed() {
		d.lane.poll(c.q)
		n = c.q.Poll(wcs)
	}
	d.lane.mu.Unlock()
	return d.lane.polledNothing(n)
}

const (
	// tallied is how many polls that each find one completion are noted together.
	tallied = 8
	// passEvery is how many completions there are at most between two passes, where posts alone complete
	// what a program polls for: what arrives has its turn too.
	passEvery = 64
)

// noteFound notes a poll that found n completions without a pass.
func (c *cq) noteFound(n int) {
	d, all := c.dev, c.q.Polled()
	switch {
	case n > 1 || d.lane.polls.movedMuch.Load():
		d.lane.noted(1)
	case all%tallied == 0:
		d.lane.polls.pollers.wake(tallied - 1)
		d.lane.noted(tallied)
	}
	if d.lane.alone && all%passEvery < uint32(n) && d.lane.mu.TryLock() {
		d.lane.poll(c.q)
		if d.lane.sleep.waiting && !d.lane.pollOwner.owned {
			d.lane.transport.wake() // no message would: the goroutine is to see that a program polls
		}
		d.lane.mu.Unlock()
	}
}

// tally notes a poll that found nothing at first, with those before it. The lock is held.
func (l *lane) tally() {
	if l.polls.unnoted++; l.polls.unnoted < tallied && !l.polls.movedMuch.Load() {
		return
	}
	l.polls.pollers.wake(l.polls.unnoted - 1)
	l.noted(l.polls.unnoted)
	l.polls.unnoted = 0
}

// noted notes polls.
func (l *lane) noted(n uint32) {
	if l.polls.movedMuch.Load() {
		l.polls.movedMuch.Store(false)
		l.polledRarely()
		return
	}
	l.polled(n)
}

// ReqNotify asks for an event: the program is going to sleep, so the device's goroutine
// takes over.
func (c *cq) ReqNotify(solicitedOnly bool) error {
	d := c.dev
	if err := d.FailCall("req_notify_cq"); err != nil {
		return err
	}
	c.q.ReqNotify(solicitedOnly)
	d.lane.mu.Lock()
	defer d.lane.mu.Unlock()
	if d.lane.closed {
		return verbs.ErrClosed
	}
	d.lane.spinner.found() // how long it sleeps says nothing about the processor
	d.lane.programSleeps()
	return nil
}

func (c *cq) Resize(cqe int) error {
	if cqe <= 0 || cqe > maxCQE {
		return badCQE("resize_cq", cqe)
	}
	c.dev.lane.mu.Lock()
	defer c.dev.lane.mu.Unlock()
	if err := c.dev.refuses("resize_cq", nil); err != nil {
		return err
	}
	return c.q.Resize(cqe)
}

// OmitTimestamps has completions carry no timestamps.
func (c *cq) OmitTimestamps() { c.q.Untimed = true }

// Empty reports whether there is nothing to poll for.
func (c *cq) Empty() bool { return c.q.Empty() }

func (c *cq) Capacity() int { return c.q.Capacity() }
func (c *cq) Err() error    { return c.q.Err() }

func (c *cq) Destroy() error {
	c.dev.lane.mu.Lock()
	defer c.dev.lane.mu.Unlock()
	removeObject(c.dev, &c.dev.objects.cqs, c)
	c.dev.counts.completionQueues.remove()
	return nil
}
