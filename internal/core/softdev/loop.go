// SPDX-License-Identifier: Apache-2.0

package softdev

import (
	"runtime"
	"time"

	"github.com/ramjet-rdma/ramjet/internal/core/clock"
)

// sleep is the state of who waits at the network: the device's goroutine, or a leader.
type sleep struct {
	waiting   bool
	waitUntil clock.Time    // deadline of its wait; zero: none
	unmoved   bool          // a wait has ended, and nothing was moved since: a leader then does not wait at first
	unlease   chan struct{} // ends its lease early
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
		if l.turns.Load()%2 == 1 {
			l.follow(timer)
			idleSince, polled = 0, true
			continue
		}
		now := l.now()
		if l.pollers.busy(now) {
			l.leased.Store(true)
			if l.pollers.asleep() { // since endLease, which saw no lease
				continue
			}
			timer.Reset(l.lease())
			select {
			case <-timer.C:
			case <-l.unlease:
			}
			idleSince, polled = 0, true
			continue
		}
		l.lock()
		l.leased.Store(false)
		if l.closed {
			l.mu.Unlock()
			return
		}
		if l.led {
			l.mu.Unlock()
			continue
		}
		n := l.move(polled)
		if n > 0 || l.mover.pending() {
			idleSince = 0
			l.mu.Unlock()
			l.pause() // a program that was just woken may answer
			continue
		}
		if idleSince == 0 {
			idleSince = now
		}
		if (now-idleSince < spin || l.pollers.dozes()) && !l.mover.stalled() {
			l.mu.Unlock()
			l.pause()
			continue
		}
		if polled {
			l.mover.flush() // held back for a poll
		}
		idleSince, polled = 0, false
		if !l.mover.arm() {
			l.mu.Unlock()
			continue
		}
		l.wait()
		led := l.led
		l.mu.Unlock()
		if led {
			l.out <- struct{}{}
			l.follow(timer)
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
		l.mover.setDeadline(l.timeOf(t))
	}
}

// endLease hands the data back to the goroutine: the program is going to sleep.
func (l *lane) endLease() {
	l.pollers.sleep()
	l.mover.flush()
	if l.leased.Swap(false) {
		l.signalLoop()
	}
}

// wakeLoop makes the goroutine check everything, whatever it is doing.
func (l *lane) wakeLoop() {
	l.signalLoop()
	l.mover.wake()
}
