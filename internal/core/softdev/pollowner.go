// SPDX-License-Identifier: Apache-2.0

package softdev

import (
	"sync/atomic"
	"time"

	"github.com/ramjet-rdma/ramjet/internal/base/clock"
)

// pollOwner is the state of a program's goroutine that owns the poll of the network. A program that waits for a
// completion takes the poll: its goroutine moves the data, in place of the lane's own, and sleeps where peers wake
// the process. So a message wakes one thread, and not two, one after the other. The poll has one owner at a time.
// Other goroutines that wait meanwhile get their completions from it.
//
// The lane's goroutine stands by: it waits until the poll has had no owner for a grace period. While messages come
// often it looks once in every grace period. It stops that while the owner
// sleeps for long.
type pollOwner struct {
	owned    bool          // the poll has an owner
	changes  atomic.Uint32 // grows when an owner comes and when it goes: odd while there is one
	outside  bool          // the owner sleeps outside of Go
	stray    bool          // a former owner may still sleep outside of Go
	dormant  bool          // the owner sleeps for long: the lane's goroutine waits for it to go
	takeOver bool          // the goroutine is needed at once
	out      chan struct{} // of capacity 1: the goroutine has left its wait to an owner
	adaptive adaptiveSpin  // whether an owner polls before it sleeps
	sleeps   atomic.Bool   // the last one did not: a look at the network just before the next one sleeps is no use
	queue    *CQ           // the owner waits for this one; nil: for any
}

const (
	// dormantAfter is the number of grace periods after which the sleep of an owner is a long one.
	dormantAfter = 4
	// maxQueuesChecked is how many completion queues an owner that goes looks at, for other goroutines that wait.
	maxQueuesChecked = 16
)

// Sleeps reports whether programs that wait for completions can sleep in Sleep. In virtual time they do not:
// that passes while they wait for the device's goroutine. Nor do they at the sockets of several lanes, unless they wait
// for a completion queue that one of them feeds ([CQ.Sleep]).
func (d *Device) Sleeps() bool { return d.Lane.pace.virtual == nil && len(d.Lanes) == 1 }

// SleepsAtOnce reports whether programs that wait for completions never poll before they sleep.
func (d *Device) SleepsAtOnce() bool { return d.eventsOnly }

// Sleep moves data until awake returns true or the device is closed. While there are none it polls, for spin
// at most and if that pays, and then sleeps. [Device.WakeSleeper] has it call awake again. It returns false if
// somebody else sleeps there already. awake is called with the lock held, and armed, if it is not nil.
func (d *Device) Sleep(awake func() bool, armed func() int, spin time.Duration) bool {
	return d.Lane.sleepFor(nil, awake, armed, spin)
}

// sleepFor is [Device.Sleep] at a lane's socket, for one completion queue; nil: for any.
func (l *Lane) sleepFor(c *CQ, awake func() bool, armed func() int, spin time.Duration) bool {
	l.Mu.Lock()
	defer l.Mu.Unlock()
	if l.dev.Closed.Load() {
		return true
	}
	l.sleepers.Add(1)
	defer l.sleepers.Done()
	if !l.ownPoll() {
		return false
	}
	l.pollOwner.queue = c
	for !l.ownerDone(awake) {
		if !l.spin(awake, clock.Time(spin)) && l.mayWait(awake) {
			l.wait()
			l.moveWoken()
		}
	}
	l.disownPoll(armed)
	return true
}

// ownPoll makes the caller the owner of the poll. It returns false if there is one.
func (l *Lane) ownPoll() bool {
	if l.pollOwner.owned || l.pace.virtual != nil {
		return false
	}
	l.pollOwner.owned = true
	l.pollOwner.changes.Add(1)
	if l.sleep.waiting { // the goroutine
		l.transport.Wake()
		l.Mu.Unlock()
		<-l.pollOwner.out
		l.Mu.Lock()
	}
	l.polls.pollers.sleep()
	return true
}

// ownerDone reports whether the owner of the poll is to leave it.
func (l *Lane) ownerDone(awake func() bool) bool {
	c := l.pollOwner.queue
	return l.dev.Closed.Load() || awake() || l.polls.pollers.awoken() || c != nil && c.onlyLane() != l
}

// disownPoll leaves the poll to the next owner, or to the lane's goroutine. armed returns how many queues are armed of
// those that the owner waits for, and soon waits for again: a program may have receives and sends complete in two
// queues of one channel. It may be nil.
func (l *Lane) disownPoll(armed func() int) {
	l.spinner.found()
	l.pollOwner.owned, l.pollOwner.queue = false, nil
	l.pollOwner.changes.Add(1)
	own := 0
	if armed != nil {
		own = armed()
	}
	if l.pollOwner.takeOver = l.dev.othersWait(own); l.pollOwner.takeOver || l.pollOwner.dormant {
		l.pollOwner.dormant = false
		l.signalLoop()
	}
}

// spin polls for the owner, if that pays, until something arrives or awake returns true. It reports whether that
// happened. It polls for twice as long as limit, which is the cost of a wake-up: while the peer sleeps, its
// answers take a wake-up longer, and neither side would find that polling pays.
func (l *Lane) spin(awake func() bool, limit clock.Time) bool {
	if limit <= 0 {
		return false
	}
	now := l.Now()
	sleeps := l.crowded() || !l.pollOwner.adaptive.polls(now)
	if l.pollOwner.sleeps.Load() != sleeps { // mostly it is the same, and to store it takes longer
		l.pollOwner.sleeps.Store(sleeps)
	}
	if sleeps {
		return false
	}
	for end := now + 2*limit; now < end; now = l.Now() {
		for range lookAfter {
			l.yield()
			if l.dev.Closed.Load() || l.polls.pollers.awoken() || l.move(true) > 0 || awake() {
				l.pollOwner.adaptive.polled(l.Now(), true)
				return true
			}
		}
	}
	l.pollOwner.adaptive.polled(now, false)
	return false
}

// mayWait prepares the owner's sleep, and reports whether it may begin. If there is something to move it does so.
func (l *Lane) mayWait(awake func() bool) bool {
	l.transport.Flush()
	if awake() { // by work requests that the flush completed
		return false
	}
	if l.transport.Pending() || l.sleep.unmoved || !l.transport.Arm() {
		l.yield()
		l.moveWoken()
		return false
	}
	return true
}

// moveWoken takes the data that has arrived during the owner's sleep. The program may answer it: the answer goes before
// an acknowledgement, which is held back until the owner sleeps again.
func (l *Lane) moveWoken() {
	if !l.dev.Closed.Load() && l.move(true) == 0 {
		l.move(false) // timers, and the packets that they send
	}
}

// yield lets other goroutines have the lock.
func (l *Lane) yield() {
	l.Mu.Unlock()
	l.Mu.Lock()
}

// WakeSleeper makes [Device.Sleep] call awake again.
func (d *Device) WakeSleeper() { d.Lane.transport.Wake() }

// wait waits for the network, without the lock.
func (l *Lane) wait() {
	l.sleep.waiting = true
	l.sleep.waitUntil = l.Timers.next()
	l.transport.SetDeadline(l.timeOf(l.sleep.waitUntil))
	writable := l.transport.Stalled()
	l.unlockToSleep(l.Now())
	if l.transport.Wait(writable) != nil {
		time.Sleep(GracePeriod) // the device is closed, or the system is out of memory
	}
	l.lock()
	l.waited()
}

// waited notes that a wait has ended.
func (l *Lane) waited() {
	l.sleep.waiting = false
	l.sleep.unmoved = true
	l.transport.Waited()
}

// othersWait reports whether others may wait for completions of queues that are not deferrable: more of them than own
// are armed.
func (d *Device) othersWait(own int) bool {
	cqs := d.objects.cqs.All()
	if len(cqs) > maxQueuesChecked {
		return true
	}
	for _, c := range cqs {
		if c.Queue.Armed() && !c.deferred {
			if own--; own < 0 {
				return true
			}
		}
	}
	return false
}

// signalLoop makes the lane's goroutine look for work.
func (l *Lane) signalLoop() {
	select {
	case l.sleep.wakeup <- struct{}{}:
	default:
	}
}

// standBy waits while programs own the poll, and for a grace period longer.
func (l *Lane) standBy(timer *time.Timer) {
	dormant, outside := false, false
	for same, seen := 0, l.pollOwner.changes.Load(); ; {
		var late <-chan time.Time
		if !dormant || outside {
			wait := l.grace()
			if dormant {
				wait = strayAfter
			}
			timer.Reset(wait)
			late = timer.C
		}
		select {
		case <-late:
		case <-l.sleep.wakeup:
		}
		l.Mu.Lock()
		if outside && dormant {
			l.replaceStray()
		}
		changes := l.pollOwner.changes.Load()
		if same++; changes != seen {
			same, seen = 0, changes
		}
		done := l.dev.Closed.Load() || !l.pollOwner.owned && (l.pollOwner.takeOver || same > 0)
		dormant = !done && l.pollOwner.owned && same >= dormantAfter
		outside = l.pollOwner.outside
		l.pollOwner.takeOver, l.pollOwner.dormant = false, dormant
		l.Mu.Unlock()
		if done {
			return
		}
	}
}
