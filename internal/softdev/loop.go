// SPDX-License-Identifier: Apache-2.0

package softdev

import (
	"runtime"
	"time"

	"github.com/ramjet-rdma/ramjet/internal/ibta"
)

// loop is the device's goroutine: it moves data while no program polls.
func (d *core) loop() {
	defer close(d.done)
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	var idleSince ibta.Time
	polled := false // a program did so a moment ago
	for {
		now := d.now()
		if d.pollers.busy(now) {
			d.leased.Store(true)
			timer.Reset(lease)
			select {
			case <-timer.C:
			case <-d.unlease:
			}
			idleSince, polled = 0, true
			continue
		}
		d.lock()
		d.leased.Store(false)
		if d.closed {
			d.mu.Unlock()
			return
		}
		n := d.mover.pass(polled)
		if n > 0 || d.mover.pending() {
			idleSince = 0
			d.mu.Unlock()
			runtime.Gosched() // whoever was just woken may answer
			continue
		}
		if idleSince == 0 {
			idleSince = now
		}
		if now-idleSince < spin && !d.mover.stalled() {
			d.mu.Unlock()
			runtime.Gosched()
			continue
		}
		if polled {
			d.mover.flush() // what was held back for a poll
		}
		idleSince, polled = 0, false
		d.waiting = true
		d.waitUntil = d.mover.nextDue()
		d.mover.setDeadline(d.timeOf(d.waitUntil))
		writable := d.mover.stalled()
		d.mu.Unlock()
		if d.mover.wait(writable) != nil {
			time.Sleep(lease) // the device is closed, or the system has no room for what waiting takes
		}
		d.lock()
		d.waiting = false
		d.mu.Unlock()
	}
}

// lock takes the device's lock on behalf of its goroutine, which does not queue for it
// unless it has to.
func (d *core) lock() {
	for range 200 {
		if d.mu.TryLock() {
			return
		}
		runtime.Gosched()
	}
	d.mu.Lock()
}

// timeOf turns the engine's time into the clock's; zero stays zero.
func (d *core) timeOf(t ibta.Time) time.Time {
	if t == 0 {
		return time.Time{}
	}
	return d.start.Add(time.Duration(t))
}

// wakeForTimer makes the goroutine's Wait end no later than the next timer.
func (d *core) wakeForTimer() { d.wakeBy(d.mover.nextDue()) }

// wakeBy makes the goroutine's Wait end no later than t; zero: never mind.
func (d *core) wakeBy(t ibta.Time) {
	if d.waiting && t != 0 && (d.waitUntil == 0 || t < d.waitUntil) {
		d.waitUntil = t
		d.mover.setDeadline(d.timeOf(t))
	}
}

// endLease gives the data back to the goroutine: the program is going to sleep.
func (d *core) endLease() {
	d.pollers.recent.Store(0)
	d.mover.flush()
	if d.leased.Swap(false) {
		select {
		case d.unlease <- struct{}{}:
		default:
		}
	}
}

// wakeLoop makes the goroutine look around, whatever it does.
func (d *core) wakeLoop() {
	select {
	case d.unlease <- struct{}{}:
	default:
	}
	d.mover.wake()
}
