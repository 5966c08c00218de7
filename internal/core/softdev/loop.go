// SPDX-License-Identifier: Apache-2.0

package softdev

import (
	"runtime"
	"time"

	"github.com/ramjet-rdma/ramjet/internal/base/clock"
)

// spin is how long the device's goroutine polls after it had something to do: the
// next packet mostly comes soon, and waking an idle processor takes longer.
const spin = clock.Time(50 * time.Microsecond)

// sleep is the state of the wait for the network, of the device's goroutine or of a poll owner.
type sleep struct {
	waiting   bool
	waitUntil clock.Time    // deadline of its wait; zero: none
	unmoved   bool          // a wait has ended, and nothing was moved since: a poll owner then does not wait at first
	wakeup    chan struct{} // ends its grace period early
	done      chan struct{} // closed with it
	yielded   clock.Time    // when a goroutine that sleeps at the network last called Go's scheduler
}

// yieldEvery is how often a goroutine that sleeps at the network calls Go's scheduler. Go's monitor takes the processor
// from a goroutine that does not do so for 10 ms, asleep or not, and then looks for others to take every 20 µs for a
// while: on a machine with four pairs of processes that was a fifth of their processor time.
const yieldEvery = clock.Time(8 * time.Millisecond)

// yields reports whether a goroutine that is about to sleep calls the scheduler before.
func (s *sleep) yields(now clock.Time) bool {
	if now-s.yielded < yieldEvery {
		return false
	}
	s.yielded = now
	return true
}

// unlockToSleep releases the lane's lock before a goroutine sleeps at the network, and has it call the scheduler in
// time.
func (l *Lane) unlockToSleep(now clock.Time) {
	yields := l.pace.virtual == nil && l.sleep.yields(now)
	l.Mu.Unlock()
	if yields {
		runtime.Gosched()
	}
}

// loop is the device's goroutine: it moves data while no program polls.
func (l *Lane) loop() {
	defer close(l.sleep.done)
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	var idleSince clock.Time
	polled := false // a program polled a moment ago
	for {
		if l.pollOwner.changes.Load()%2 == 1 {
			l.standBy(timer)
			idleSince, polled = 0, true
			continue
		}
		now := l.Now()
		if l.polls.pollers.busy(now) {
			l.polls.programPolls.Store(true)
			if l.polls.pollers.asleep() { // since programSleeps, which saw no grace period
				continue
			}
			timer.Reset(l.grace())
			select {
			case <-timer.C:
			case <-l.sleep.wakeup:
			}
			idleSince, polled = 0, true
			continue
		}
		l.lock()
		l.polls.programPolls.Store(false)
		if l.dev.Closed.Load() {
			l.Mu.Unlock()
			return
		}
		if l.pollOwner.owned {
			l.Mu.Unlock()
			continue
		}
		n := l.move(polled)
		if n > 0 || l.transport.Pending() {
			idleSince = 0
			l.Mu.Unlock()
			l.pace.pause() // a program that was just woken may answer
			continue
		}
		if idleSince == 0 {
			idleSince = now
		}
		if (now-idleSince < spin || l.polls.pollers.anyParked()) && !l.transport.Stalled() {
			l.Mu.Unlock()
			l.pace.pause()
			continue
		}
		if polled {
			l.transport.Flush() // held back for a poll
		}
		idleSince, polled = 0, false
		if !l.transport.Arm() {
			l.Mu.Unlock()
			continue
		}
		l.wait()
		owned := l.pollOwner.owned
		l.Mu.Unlock()
		if owned {
			l.pollOwner.out <- struct{}{}
			l.standBy(timer)
			idleSince, polled = 0, true
		}
	}
}

// lock takes the device's lock for its goroutine, which does not queue for it unless it has to.
func (l *Lane) lock() {
	for range 200 {
		if l.Mu.TryLock() {
			return
		}
		runtime.Gosched()
	}
	l.Mu.Lock()
}

// timeOf converts an engine's time to the clock's; zero stays zero.
func (l *Lane) timeOf(t clock.Time) time.Time {
	if t == 0 {
		return time.Time{}
	}
	return l.start.Add(time.Duration(t))
}

// WakeForTimer makes the goroutine's wait end no later than the next timer.
func (l *Lane) WakeForTimer() { l.WakeBy(l.Timers.next()) }

// WakeBy makes the goroutine's wait end no later than t; zero: no limit.
func (l *Lane) WakeBy(t clock.Time) {
	if l.sleep.waiting && t != 0 && (l.sleep.waitUntil == 0 || t < l.sleep.waitUntil) {
		l.sleep.waitUntil = t
		l.transport.SetDeadline(l.timeOf(t))
	}
}

// programSleeps hands the data back to the goroutine: the program is going to sleep.
func (l *Lane) programSleeps() {
	l.polls.pollers.sleep()
	l.transport.Flush()
	if l.polls.programPolls.Swap(false) {
		l.signalLoop()
	}
}

// Waiting reports whether somebody waits for the network.
func (l *Lane) Waiting() bool { return l.sleep.waiting }

// wakeLoop makes the goroutine check everything, whatever it is doing.
func (l *Lane) wakeLoop() {
	l.signalLoop()
	l.transport.Wake()
}
