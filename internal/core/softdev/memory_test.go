// SPDX-License-Identifier: Apache-2.0

package softdev

import (
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// changes guards what others wait for, and wakes them.
type changes struct {
	mu   sync.Mutex
	next chan struct{} // closed at the next change; nil: nobody waits for it
}

func (c *changes) change(f func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f()
	if c.next != nil {
		close(c.next)
		c.next = nil
	}
}

// memWaiter is how ports and networks in memory wait.
type memWaiter struct {
	in      *changes
	waiting atomic.Int32

	deadline time.Time // in.mu guards it and what follows
	woken    bool
	closed   bool
}

// wait waits until ready says so, which is asked with the lock held.
func (w *memWaiter) wait(ready func() bool) error {
	w.waiting.Add(1)
	defer w.waiting.Add(-1)
	for {
		w.in.mu.Lock()
		deadline, closed := w.deadline, w.closed
		done := w.woken || ready() || !deadline.IsZero() && !time.Now().Before(deadline)
		w.woken = false
		if w.in.next == nil {
			w.in.next = make(chan struct{})
		}
		changed := w.in.next
		w.in.mu.Unlock()
		if closed {
			return net.ErrClosed
		}
		if done {
			return nil
		}
		var expired <-chan time.Time
		if !deadline.IsZero() {
			expired = time.After(time.Until(deadline))
		}
		select {
		case <-changed:
		case <-expired:
		}
	}
}

func (w *memWaiter) SetDeadline(t time.Time) { w.in.change(func() { w.deadline = t }) }
func (w *memWaiter) Wake()                   { w.in.change(func() { w.woken = true }) }
func (w *memWaiter) Close() error            { w.in.change(func() { w.closed = true }); return nil }
