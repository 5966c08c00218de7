// SPDX-License-Identifier: Apache-2.0

package softdev

import (
	"runtime"
	"time"

	"github.com/ramjet-rdma/ramjet/internal/core/clock"
)

// sleep is the state of the device's goroutine while nothing happens.
type sleep struct {
	waiting   bool
	waitUntil clock.Time    // deadline of its wait; zero: none
	unlease   chan struct{} // ends its lease early
	done      chan struct{} // closed with it
}

// loop is the device's goroutine: it moves data while no program polls.
func (d *Device) loop() {
	defer close(d.done)
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	var idleSince clock.Time
	polled := false // a program polled a moment ago
	for {
		now := d.now()
		if d.pollers.busy(now) {
			d.leased.Store(true)
			if d.pollers.asleep() { // since endLease, which saw no lease
				continue
			}
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
		n := d.move(polled)
		if n > 0 || d.fabric.pending() {
			idleSince = 0
			d.mu.Unlock()
			d.pause() // a program that was just woken may answer
			continue
		}
		if idleSince == 0 {
			idleSince = now
		}
		if (now-idleSince < spin || d.pollers.dozes()) && !d.fabric.stalled() {
			d.mu.Unlock()
			d.pause()
			continue
		}
		if polled {
			d.fabric.flush() // held back for a poll
		}
		idleSince, polled = 0, false
		d.waiting = true
		d.waitUntil = d.timers.next()
		d.fabric.setDeadline(d.timeOf(d.waitUntil))
		writable := d.fabric.stalled()
		d.mu.Unlock()
		if d.fabric.wait(writable) != nil {
			time.Sleep(lease) // the device is closed, or the system is out of memory
		}
		d.lock()
		d.waiting = false
		d.mu.Unlock()
	}
}

// lock takes the device's lock for its goroutine, which does not queue for it unless it has to.
func (d *Device) lock() {
	for range 200 {
		if d.mu.TryLock() {
			return
		}
		runtime.Gosched()
	}
	d.mu.Lock()
}

// timeOf converts an engine's time to the clock's; zero stays zero.
func (d *Device) timeOf(t clock.Time) time.Time {
	if t == 0 {
		return time.Time{}
	}
	return d.start.Add(time.Duration(t))
}

// wakeForTimer makes the goroutine's wait end no later than the next timer.
func (d *Device) wakeForTimer() { d.wakeBy(d.timers.next()) }

// wakeBy makes the goroutine's wait end no later than t; zero: no limit.
func (d *Device) wakeBy(t clock.Time) {
	if d.waiting && t != 0 && (d.waitUntil == 0 || t < d.waitUntil) {
		d.waitUntil = t
		d.fabric.setDeadline(d.timeOf(t))
	}
}

// endLease hands the data back to the goroutine: the program is going to sleep.
func (d *Device) endLease() {
	d.pollers.sleep()
	d.fabric.flush()
	if d.leased.Swap(false) {
		select {
		case d.unlease <- struct{}{}:
		default:
		}
	}
}

// wakeLoop makes the goroutine check everything, whatever it is doing.
func (d *Device) wakeLoop() {
	select {
	case d.unlease <- struct{}{}:
	default:
	}
	d.fabric.wake()
}
