// SPDX-License-Identifier: Apache-2.0

package infiniband

import (
	"net"
	"sync/atomic"
	"time"

	"github.com/ramjet-rdma/ramjet/internal/system/pollwait"
)

// waiter is where a device's goroutine waits.
type waiter struct {
	ring     chan struct{} // of capacity 1: look again
	deadline pollwait.Deadline
	timer    *time.Timer // of the one who waits
	closed   atomic.Bool
}

func (w *waiter) init() {
	w.ring = make(chan struct{}, 1)
	w.timer = time.NewTimer(time.Hour)
}

// wait waits until ready says so, the deadline passes or Wake is called. One goroutine waits at a time.
func (w *waiter) wait(ready func() bool) error {
	for {
		if w.closed.Load() {
			return net.ErrClosed
		}
		if ready() {
			return nil
		}
		left := time.Hour
		if d := w.deadline.Get(); d != 0 {
			if left = d.Until(); left <= 0 {
				return nil
			}
		}
		w.timer.Reset(left)
		select {
		case <-w.ring:
			return nil
		case <-w.timer.C:
		}
	}
}

// Wake ends a wait. It does not block.
func (w *waiter) Wake() {
	select {
	case w.ring <- struct{}{}:
	default:
	}
}

// SetDeadline sets when a wait ends at the latest.
func (w *waiter) SetDeadline(t time.Time) {
	if w.deadline.Set(t) {
		w.Wake()
	}
}

func (w *waiter) close() {
	w.closed.Store(true)
	w.Wake()
}
