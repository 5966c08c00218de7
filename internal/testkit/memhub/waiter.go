// SPDX-License-Identifier: Apache-2.0

package memhub

import (
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// Changes guards state that goroutines wait for, and wakes them.
type Changes struct {
	Mu   sync.Mutex
	next chan struct{} // closed at the next change; nil: no goroutine waits for it
}

// Change makes a change, and wakes the goroutines that wait for one.
func (c *Changes) Change(f func()) {
	c.Mu.Lock()
	defer c.Mu.Unlock()
	f()
	if c.next != nil {
		close(c.next)
		c.next = nil
	}
}

// Waiter is how ports and networks in memory wait.
type Waiter struct {
	In      *Changes
	Waiting atomic.Int32

	Deadline time.Time // In.Mu guards it and the fields that follow
	woken    bool
	closed   bool
}

// WaitFor waits until ready says so, which is asked with the lock held.
func (w *Waiter) WaitFor(ready func() bool) error {
	w.Waiting.Add(1)
	defer w.Waiting.Add(-1)
	for {
		w.In.Mu.Lock()
		deadline, closed := w.Deadline, w.closed
		done := w.woken || ready() || !deadline.IsZero() && !time.Now().Before(deadline)
		w.woken = false
		if w.In.next == nil {
			w.In.next = make(chan struct{})
		}
		changed := w.In.next
		w.In.Mu.Unlock()
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

func (w *Waiter) SetDeadline(t time.Time) { w.In.Change(func() { w.Deadline = t }) }

// IsClosed reports whether Close was called.
func (w *Waiter) IsClosed() bool {
	w.In.Mu.Lock()
	defer w.In.Mu.Unlock()
	return w.closed
}

func (w *Waiter) Wake()        { w.In.Change(func() { w.woken = true }) }
func (w *Waiter) Close() error { w.In.Change(func() { w.closed = true }); return nil }
