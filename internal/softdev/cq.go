// SPDX-License-Identifier: Apache-2.0

package softdev

import (
	"github.com/ramjet-rdma/ramjet/internal/queue"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// cq is a completion queue.
type cq struct {
	dev    *core
	q      *queue.CQ
	events verbs.CQEvents
}

// CreateCQ creates a completion queue.
func (d *core) CreateCQ(cqe int, ev verbs.CQEvents) (verbs.CQDriver, error) {
	if cqe > maxCQE {
		return nil, verbs.ErrInvalid
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return nil, verbs.ErrClosed
	}
	if len(d.cqs) >= maxObjects {
		return nil, errTooMany
	}
	c := &cq{dev: d, q: queue.NewCQ(cqe, ev), events: ev}
	d.cqs[c] = struct{}{}
	return c, nil
}

// Poll takes completions; if there are none it moves data and looks again.
func (c *cq) Poll(wcs []verbs.WC) int {
	d := c.dev
	d.noted()
	if n := c.q.Poll(wcs); n > 0 {
		return n
	}
	if !d.mu.TryLock() {
		return 0 // somebody else moves data
	}
	d.poll(c.q)
	d.mu.Unlock()
	return c.q.Poll(wcs)
}

// noted notes a poll.
func (d *core) noted() {
	if d.heavy.Load() {
		d.heavy.Store(false)
		d.toiled()
		return
	}
	d.polled(1)
}

// ReqNotify asks for an event: the program is going to sleep, so the device's goroutine
// takes over.
func (c *cq) ReqNotify(solicitedOnly bool) error {
	c.q.ReqNotify(solicitedOnly)
	d := c.dev
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return verbs.ErrClosed
	}
	d.endLease()
	return nil
}

func (c *cq) Resize(cqe int) error {
	if cqe <= 0 || cqe > maxCQE {
		return verbs.ErrInvalid
	}
	return c.q.Resize(cqe)
}

func (c *cq) Capacity() int { return c.q.Capacity() }
func (c *cq) Err() error    { return c.q.Err() }

func (c *cq) Destroy() error {
	c.dev.mu.Lock()
	defer c.dev.mu.Unlock()
	delete(c.dev.cqs, c)
	return nil
}
