// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"fmt"
	"sync/atomic"

	"github.com/ramjet-rdma/ramjet/internal/base/lockorder"
	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/verbs/driver"
)

// The kinds of event that may have been requested.
const (
	notifyNone uint32 = iota
	notifySolicited
	notifyAny
)

// CQ is a completion queue. Any number of goroutines may poll it and request events. [CQ.Push] and [CQ.Forget]
// are called with the lock of a lane held, and [CQ.Resize] with those of all.
//
// So the pushes of one lane take no lock, and those of several share one. A push stores pushed, and then loads whether
// an event was requested; a request of one stores that, and then loads pushed in a poll. The load must not come before
// the store. The store of pushed is a swap, because the race detector's stores do not keep that order.
type CQ struct {
	pushing lockorder.Mutex[lockorder.Push] // by several lanes
	several bool                            // lanes push; changed with the locks of all lanes held

	// Of the pushing side, which changes them with poll held.
	slots    []verbs.WC // length a power of two
	frees    []Frees    // the places of queues that polling each of slots frees; nil unless strict
	capacity int
	seen     uint32 // polled, when it was last looked at

	pushed   atomic.Uint32 // completions, ever
	armed    atomic.Uint32 // the event that was requested
	overflow atomic.Bool

	poll   lockorder.Mutex[lockorder.Leaf]
	polled atomic.Uint32 // completions, ever

	events driver.CQEvents

	Untimed bool // completions carry no timestamp
	strict  bool
}

// NewCQ creates a queue for capacity completions. A strict one is a NIC's: polling frees places in work queues, and
// once it overflows none of its completions can be polled.
func NewCQ(capacity int, strict bool, ev driver.CQEvents) *CQ {
	return &CQ{capacity: capacity, strict: strict, events: ev}
}

// PushFromSeveral prepares for completions of several lanes, whose locks are held.
func (c *CQ) PushFromSeveral() { c.several = true }

// Push adds a completion, and raises the event if it was requested. It returns false if the queue
// is full. Then the completion is lost and the queue is in error from then on (IBTA 10.2.6.3).
func (c *CQ) Push(wc *verbs.WC, solicited bool, frees Frees) bool {
	if !c.several {
		return c.push(wc, solicited, frees)
	}
	c.pushing.Lock()
	defer c.pushing.Unlock()
	return c.push(wc, solicited, frees)
}

// push is Push, which excludes others.
func (c *CQ) push(wc *verbs.WC, solicited bool, frees Frees) bool {
	at := c.pushed.Load()
	if int(at-c.seen) >= min(c.capacity, len(c.slots)) && !c.room() || c.overflow.Load() {
		if !c.overflow.Swap(true) {
			c.drop()
			c.events.Error()
		}
		return false
	}
	c.slots[at&uint32(len(c.slots)-1)] = *wc
	if c.strict {
		c.frees[at&uint32(len(c.slots)-1)] = frees
	}
	c.pushed.Swap(at + 1)
	if c.armed.Load() != notifyNone {
		c.notify(solicited || wc.Status != verbs.StatusSuccess)
	}
	return true
}

// room makes room for one more completion, and returns false if there is none.
func (c *CQ) room() bool {
	c.seen = c.polled.Load()
	n := int(c.pushed.Load() - c.seen)
	if n >= c.capacity {
		return false
	}
	if n < len(c.slots) {
		return true
	}
	c.poll.Lock()
	defer c.poll.Unlock()
	next := make([]verbs.WC, max(firstSlots, 2*len(c.slots)))
	for at := c.polled.Load(); at != c.pushed.Load(); at++ {
		next[at&uint32(len(next)-1)] = c.slots[at&uint32(len(c.slots)-1)]
	}
	if c.strict {
		frees := make([]Frees, len(next))
		for at := c.polled.Load(); at != c.pushed.Load(); at++ {
			frees[at&uint32(len(next)-1)] = c.frees[at&uint32(len(c.slots)-1)]
		}
		c.frees = frees
	}
	c.slots = next
	return true
}

// drop drops the completions of a strict queue that has overflowed: whether they can be polled is not guaranteed
// (IBTA 11.6.3.2). The places that they would free stay taken.
func (c *CQ) drop() {
	if !c.strict {
		return
	}
	c.poll.Lock()
	defer c.poll.Unlock()
	c.polled.Store(c.pushed.Load())
}

// notify raises the event that was requested, if the completion is one for it.
func (c *CQ) notify(solicited bool) {
	for {
		armed := c.armed.Load()
		if armed == notifyNone || armed == notifySolicited && !solicited {
			return
		}
		if c.armed.CompareAndSwap(armed, notifyNone) {
			c.events.Completion()
			return
		}
	}
}

// Poll takes up to len(wcs) completions.
func (c *CQ) Poll(wcs []verbs.WC) int {
	if c.Empty() {
		return 0
	}
	c.poll.Lock()
	at := c.polled.Load()
	n := min(len(wcs), int(c.pushed.Load()-at))
	for i := range n {
		wcs[i] = c.slots[(at+uint32(i))&uint32(len(c.slots)-1)]
	}
	if c.strict {
		for i := range n {
			c.frees[(at+uint32(i))&uint32(len(c.slots)-1)].free()
		}
	}
	c.polled.Store(at + uint32(n))
	c.poll.Unlock()
	return n
}

// Polled returns how many completions were taken, ever.
func (c *CQ) Polled() uint32 { return c.polled.Load() }

// Len returns how many completions wait to be polled.
func (c *CQ) Len() int {
	polled := c.polled.Load() // first: then it is never more than was pushed
	return int(c.pushed.Load() - polled)
}

// Empty reports whether there are no completions.
func (c *CQ) Empty() bool { return c.polled.Load() == c.pushed.Load() }

// ReqNotify requests one event at the next completion.
func (c *CQ) ReqNotify(solicitedOnly bool) {
	want := notifyAny
	if solicitedOnly {
		want = notifySolicited
	}
	for armed := c.armed.Load(); armed < want && !c.armed.CompareAndSwap(armed, want); {
		armed = c.armed.Load()
	}
}

// Armed reports whether an event was requested that has not been raised.
func (c *CQ) Armed() bool { return c.armed.Load() != notifyNone }

// Resize changes the capacity, which must hold the queued completions.
func (c *CQ) Resize(capacity int) error {
	c.poll.Lock()
	defer c.poll.Unlock()
	if n := int(c.pushed.Load() - c.polled.Load()); capacity < n {
		return &verbs.OpError{Op: "resize_cq", Err: verbs.ErrInvalid,
			Detail: fmt.Sprintf("%d entries, but %d completions are in the queue", capacity, n)}
	}
	c.capacity = capacity
	return nil
}

// Capacity returns how many completions fit.
func (c *CQ) Capacity() int {
	c.poll.Lock()
	defer c.poll.Unlock()
	return c.capacity
}

// Err returns ErrOverflow once a completion was lost.
func (c *CQ) Err() error {
	if c.overflow.Load() {
		return verbs.ErrOverflow
	}
	return nil
}

// Forget drops the completions of a queue pair that is destroyed or reset.
func (c *CQ) Forget(qpn verbs.QPN) {
	if c.several {
		c.pushing.Lock()
		defer c.pushing.Unlock()
	}
	c.poll.Lock()
	defer c.poll.Unlock()
	mask := uint32(len(c.slots) - 1)
	to := c.polled.Load()
	for at := to; at != c.pushed.Load(); at++ {
		if wc := &c.slots[at&mask]; wc.QPN != qpn {
			c.slots[to&mask] = *wc
			if c.strict {
				c.frees[to&mask] = c.frees[at&mask]
			}
			to++
		} else if c.strict {
			c.frees[at&mask].free() // of a shared receive queue, which goes on
		}
	}
	c.pushed.Store(to)
}
