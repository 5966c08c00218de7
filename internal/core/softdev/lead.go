// SPDX-License-Identifier: Apache-2.0

package softdev

import (
	"sync/atomic"
	"time"

	"github.com/ramjet-rdma/ramjet/internal/core/clock"
)

// A program that sleeps until there is a completion can lead: its goroutine moves the data, in place of
// the lane's own, and waits where peers wake the process. So one thread is woken for a message and not
// two, one after the other. There is one leader at a time. Others who wait meanwhile do so for what it
// delivers.
//
// The lane's goroutine follows: it waits until the leader has been away for a lease. While messages come
// often it looks in every lease. A leader that sleeps for long leaves it parked.
type leading struct {
	led      bool          // there is a leader
	turns    atomic.Uint32 // grows when one comes and when one goes: odd while there is one
	parked   bool          // the goroutine waits for the leader to go
	takeOver bool          // the goroutine is needed at once
	out      chan struct{} // of capacity 1: the goroutine has left its wait to a leader
	adaptive adaptiveSpin  // whether a leader polls before it sleeps
}

const (
	// parkAfter is how many leases the goroutine sees the same leader asleep before it is parked.
	parkAfter = 4
	// maxQueuesChecked is how many completion queues a leader that goes looks at, for others who wait.
	maxQueuesChecked = 16
)

// Sleeps reports whether programs that wait for completions can sleep in Sleep. In virtual time they do not:
// that passes while they wait for the device's goroutine.
func (d *Device) Sleeps() bool { return d.virtual == nil }

// SleepsAtOnce reports whether programs that wait for completions never poll before they sleep.
func (d *Device) SleepsAtOnce() bool { return d.eventsOnly }

// Sleep moves data until awake returns true or the device is closed. While there are none it polls, for spin
// at most and if that pays, and then sleeps. [Device.WakeSleeper] has it call awake again. It returns false if
// somebody else sleeps there already. awake is called with the lock held.
func (d *Device) Sleep(awake func() bool, spin time.Duration) bool {
	l := &d.lane
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed || l.led || l.virtual != nil {
		return l.closed
	}
	l.led = true
	l.turns.Add(1)
	l.dozes.Add(1)
	defer l.dozes.Done()
	if l.waiting { // the goroutine
		l.mover.wake()
		l.mu.Unlock()
		<-l.out
		l.mu.Lock()
	}
	l.pollers.sleep()
	for !l.closed && !awake() && !l.pollers.awoken() {
		if !l.spin(awake, clock.Time(spin)) {
			l.sleepOnce(awake)
		}
	}
	l.spinner.found()
	l.led = false
	l.turns.Add(1)
	if l.takeOver = d.othersWait(); l.takeOver || l.parked {
		l.parked = false
		l.signalLoop()
	}
	return true
}

// spin polls for a leader, if that pays, until there is something. It reports whether there was: an arrival, or what
// the leader waits for. It polls for twice as long as limit, which is what a wake-up costs: while the peer sleeps, its
// answers take a wake-up longer, and neither side would find that polling pays.
func (l *lane) spin(awake func() bool, limit clock.Time) bool {
	if limit <= 0 {
		return false
	}
	now := l.now()
	if l.crowded() || !l.adaptive.polls(now) {
		return false
	}
	for end := now + 2*limit; now < end; now = l.now() {
		for range lookAfter {
			l.yield()
			if l.closed || l.pollers.awoken() || l.move(true) > 0 || awake() {
				l.adaptive.polled(l.now(), true)
				return true
			}
		}
	}
	l.adaptive.polled(now, false)
	return false
}

// sleepOnce sleeps until something may have arrived, and takes it. What arrives may be answered by the
// program: the answer goes before an acknowledgement, which is held back until the leader sleeps again.
func (l *lane) sleepOnce(awake func() bool) {
	l.mover.flush()
	if awake() { // by what the flush completed
		return
	}
	if l.mover.pending() || l.unmoved || !l.mover.arm() {
		l.yield()
	} else {
		l.wait()
	}
	if !l.closed && l.move(true) == 0 {
		l.move(false) // timers, and what they send
	}
}

// yield gives others their turn with the lock.
func (l *lane) yield() {
	l.mu.Unlock()
	l.mu.Lock()
}

// WakeSleeper makes [Device.Sleep] call awake again.
func (d *Device) WakeSleeper() { d.lane.mover.wake() }

// wait waits for the network, without the lock.
func (l *lane) wait() {
	l.waiting = true
	l.waitUntil = l.timers.next()
	l.mover.setDeadline(l.timeOf(l.waitUntil))
	writable := l.mover.stalled()
	l.mu.Unlock()
	if l.mover.wait(writable) != nil {
		time.Sleep(lease) // the device is closed, or the system is out of memory
	}
	l.lock()
	l.waiting = false
	l.unmoved = true
}

// othersWait reports whether others may wait for completions.
func (d *Device) othersWait() bool {
	cqs := d.objects.cqs.All()
	if len(cqs) > maxQueuesChecked {
		return true
	}
	for _, c := range cqs {
		if c.q.Armed() {
			return true
		}
	}
	return false
}

// signalLoop makes the lane's goroutine look for work.
func (l *lane) signalLoop() {
	select {
	case l.unlease <- struct{}{}:
	default:
	}
}

// follow waits while programs lead, and for a lease longer.
func (l *lane) follow(timer *time.Timer) {
	park := false
	for same, seen := 0, l.turns.Load(); ; {
		if park {
			<-l.unlease
		} else {
			timer.Reset(l.lease())
			select {
			case <-timer.C:
			case <-l.unlease:
			}
		}
		l.mu.Lock()
		turns := l.turns.Load()
		if same++; turns != seen {
			same, seen = 0, turns
		}
		done := l.closed || !l.led && (l.takeOver || same > 0)
		park = !done && l.led && same >= parkAfter
		l.takeOver, l.parked = false, park
		l.mu.Unlock()
		if done {
			return
		}
	}
}
