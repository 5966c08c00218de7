// SPDX-License-Identifier: Apache-2.0

package softdev

import (
	"runtime"
	"time"

	"github.com/ramjet-rdma/ramjet/internal/core/clock"
)

// sleep is the state of the wait for the network, of the device's goroutine or of a poll owner.
type sleep struct {
	waiting   bool
	waitUntil clock.Time    // deadline of its wait; zero: none
	unmoved   bool          // a wait has ended, and nothing was moved since: a poll owner then does not wait at first
	wakeup    chan struct{} // ends its grace period early
	done      chan struct{} // closed with it
}

// loop is the device's goroutine: it moves data while no program polls.
func (l *lane) loop() {
	defer close(l.done)
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	var idleSince clock.Time
	polled := false // a program polled a moment ago
	for {
		if l.changes.Load()%2 == 1 {
			l.standBy(timer)
			idleSince, polled = 0, true
			continue
		}
		now := l.now()
		if l.pollers.busy(now) {
			l.programPolls.Store(true)
			if l.pollers.asleep() { // since programSleeps, which saw no grace period
				continue
			}
			timer.Reset(l.grace())
			select {
			case <-timer.C:
			case <-l.wakeup:
			}
			idleSince, polled = 0, true
			continue
		}
		l.lock()
		l.programPolls.Store(false)
		if l.closed {
			l.mu.Unlock()
			return
		}
		if l.owned {
			l.mu.Unlock()
			continue
		}
		n := l.move(polled)
		if n > 0 || l.transport.pending() {
			idleSince = 0
			l.mu.Unlock()
			l.pause() // a program that was just woken may answer
			continue
		}
		if idleSince == 0 {
			idleSince = now
		}
		if (now-idleSince < spin || l.pollers.dozes()) && !l.transport.stalled() {
			l.mu.Unlock()
			l.pause()
			continue
		}
		if polled {
			l.transport.flush() // held back for a poll
		}
		idleSince, polled = 0, false
		if !l.transport.arm() {
			l.mu.Unlock()
			continue
		}
		l.wait()
		owned := l.owned
		l.mu.Unlock()
		if owned {
			l.out <- struct{}{}
			l.standBy(timer)
			idleSince, polled = 0, true
		}
	}
}

// lock takes the device's lock for its goroutine, which does not queue for it unless it has to.
func (l *lane) lock() {
	for range 200 {
		if l.mu.TryLock() {
			return
		}
		runtime.Gosched()
	}
	l.mu.Lock()
}

// timeOf converts an engine's time to the clock's; zero stays zero.
func (l *lane) timeOf(t clock.Time) time.Time {
	if t == 0 {
		return time.Time{}
	}
	return l.start.Add(time.Duration(t))
}

// wakeForTimer makes the goroutine's wait end no later than the next timer.
func (l *lane) wakeForTimer() { l.wakeBy(l.timers.next()) }

// wakeBy makes the goroutine's wait end no later than t; zero: no limit.
func (l *lane) wakeBy(t clock.Time) {
	if l.waiting && t != 0 && (l.waitUntil == 0 || t < l.waitUntil) {
		l.waitUntil = t
		l.transport.setDeadline(l.timeOf(t))
	}
}

// programSleeps hands the data back to the goroutine: the program is going to sleep.
func (l *lane) programSleeps() {
	l.pollers.sleep()
	l.transport.flush()
	if l.programPolls.Swap(false) {
		l.signalLoop()
	}
}

// wakeLoop makes the goroutine check everything, whatever it is doing.
func (l *lane) wakeLoop() {
	l.signalLoop()
	l.transport.wake()
}
