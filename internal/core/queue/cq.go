// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"sync"
	"sync/atomic"

	"github.com/ramjet-rdma/ramjet/verbs"
)

// notify is the kind of event that was last requested.
type notify uint8

const (
	notifyNone notify = iota
	notifySolicited
	notifyAny
)

// CQ is a completion queue. It is safe for concurrent use.
type CQ struct {
	count    atomic.Int32 // completions in the ring; read without the lock
	mu       sync.Mutex
	ring     Ring[verbs.WC]
	capacity int
	armed    notify
	overflow bool
	events   verbs.CQEvents
}

// NewCQ creates a queue for capacity completions.
func NewCQ(capacity int, ev verbs.CQEvents) *CQ {
	return &CQ{capacity: capacity, events: ev}
}

// Push adds a completion, and raises the event if it was requested. It returns false if the queue
// is full. Then the completion is lost and the queue is in error from then on (IBTA 10.2.6.3).
func (c *CQ) Push(wc *verbs.WC, solicited bool) bool {
	c.mu.Lock()
	if c.overflow || c.ring.Len() >= c.capacity {
		first := !c.overflow
		c.overflow = true
		c.mu.Unlock()
		if first {
			c.events.Error()
		}
		return false
	}
	*c.ring.PushBack() = *wc
	c.count.Store(int32(c.ring.Len()))
	raise := c.armed == notifyAny || c.armed == notifySolicited && (solicited || wc.Status != verbs.Success)
	if raise {
		c.armed = notifyNone
	}
	c.mu.Unlock()
	if raise {
		c.events.Completion()
	}
	return true
}

// Poll takes up to len(wcs) completions.
func (c *CQ) Poll(wcs []verbs.WC) int {
	if c.count.Load() == 0 {
		return 0
	}
	c.mu.Lock()
	n := min(len(wcs), c.ring.Len())
	for i := range n {
		wcs[i] = *c.ring.Front()
		c.ring.PopFront()
	}
	c.count.Store(int32(c.ring.Len()))
	c.mu.Unlock()
	return n
}

// ReqNotify requests one event at the next completion.
func (c *CQ) ReqNotify(solicitedOnly bool) {
	c.mu.Lock()
	want := notifyAny
	if solicitedOnly {
		want = notifySolicited
	}
	c.armed = max(c.armed, want)
	c.mu.Unlock()
}

// Resize changes the capacity, which must hold the queued completions.
func (c *CQ) Resize(capacity int) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if capacity < c.ring.Len() {
		return verbs.ErrInvalid
	}
	c.capacity = capacity
	return nil
}

// Capacity returns how many completions fit.
func (c *CQ) Capacity() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.capacity
}

// Err returns ErrOverflow once a completion was lost.
func (c *CQ) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.overflow {
		return verbs.ErrOverflow
	}
	return nil
}

// Forget drops the completions of a queue pair that is destroyed or reset.
func (c *CQ) Forget(qpn verbs.QPN) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for range c.ring.Len() {
		wc := *c.ring.Front()
		c.ring.PopFront()
		if wc.QPN != qpn {
			*c.ring.PushBack() = wc
		}
	}
	c.count.Store(int32(c.ring.Len()))
}
