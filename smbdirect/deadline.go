// SPDX-License-Identifier: Apache-2.0

package smbdirect

import (
	"context"
	"sync"
	"time"
)

// deadline is a context that ends at a time that may be moved.
type deadline struct {
	mu    sync.Mutex
	ctx   context.Context
	end   context.CancelFunc
	at    time.Time // zero: never
	timer *time.Timer
}

func (d *deadline) init() { d.ctx, d.end = context.WithCancel(context.Background()) }

// context returns the context that a call waits with.
func (d *deadline) context() context.Context {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.ctx
}

// set sets the time at which calls end, including calls that wait already.
func (d *deadline) set(t time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.ctx.Err() != nil {
		d.init()
	}
	if d.at = t; d.timer != nil {
		d.timer.Stop()
	}
	switch left := time.Until(t); {
	case t.IsZero():
	case left <= 0:
		d.end()
	case d.timer == nil:
		d.timer = time.AfterFunc(left, d.expire)
	default:
		d.timer.Reset(left)
	}
}

// expire runs when the timer fires, perhaps for a deadline that was moved since.
func (d *deadline) expire() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.at.IsZero() && !time.Now().Before(d.at) {
		d.end()
	}
}

// stop ends calls that wait.
func (d *deadline) stop() {
	d.set(time.Time{})
	d.mu.Lock()
	defer d.mu.Unlock()
	d.end()
}
