// SPDX-License-Identifier: Apache-2.0

package fabric

import (
	"sync/atomic"
	"time"
)

// Waiter blocks and wakes the goroutines of the fabric and of its drivers. All waiting goes through it, so that a
// simulation can replace it.
type Waiter interface {
	// Wait waits until ready returns true, the deadline passes or Wake is called. It returns ErrClosed after
	// Close. One goroutine waits at a time.
	Wait(ready func() bool) error
	// SetDeadline sets when a wait ends at the latest; the zero time means never.
	SetDeadline(t time.Time)
	// Wake ends a wait, or the next one. It does not block.
	Wake()
	// Close ends all waits.
	Close()
}

// realWaiter is a Waiter in real time.
type realWaiter struct {
	start    time.Time
	woken    chan struct{} // of capacity 1: Wake was called
	deadline atomic.Int64  // nanoseconds since start; 0: none
	timer    *time.Timer   // of the waiting goroutine
	closed   atomic.Bool
}

// NewWaiter returns a waiter in real time.
func NewWaiter() Waiter {
	return &realWaiter{start: time.Now(), woken: make(chan struct{}, 1), timer: time.NewTimer(time.Hour)}
}

// Wait waits.
func (w *realWaiter) Wait(ready func() bool) error {
	for {
		if w.closed.Load() {
			return ErrClosed
		}
		if ready() {
			return nil
		}
		left := time.Hour
		if d := w.deadline.Load(); d != 0 {
			if left = time.Duration(d) - time.Since(w.start); left <= 0 {
				return nil
			}
		}
		w.timer.Reset(left)
		select {
		case <-w.woken:
			return nil
		case <-w.timer.C:
		}
	}
}

func (w *realWaiter) Wake() {
	select {
	case w.woken <- struct{}{}:
	default:
	}
}

func (w *realWaiter) SetDeadline(t time.Time) {
	at := int64(0)
	if !t.IsZero() {
		at = max(1, int64(t.Sub(w.start)))
	}
	if old := w.deadline.Swap(at); at != 0 && (old == 0 || at < old) {
		w.Wake()
	}
}

func (w *realWaiter) Close() {
	w.closed.Store(true)
	w.Wake()
}
