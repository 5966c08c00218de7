// SPDX-License-Identifier: Apache-2.0

package softdev

import (
	"runtime"
	"time"

	"github.com/ramjet-rdma/ramjet/internal/base/clock"
	"github.com/ramjet-rdma/ramjet/verbs/driver"
)

// strayAfter is how often the lane's goroutine looks whether an owner of the poll that sleeps outside of Go still
// wakes.
const strayAfter = 250 * time.Millisecond

// PollWaiter is a port or network at which a thread can sleep by itself, with poll(2).
type PollWaiter interface {
	// Pollable reports whether one can: a port may have that on some systems only.
	Pollable() bool
	// BeginWait does the part of Wait before the sleep, and says in at how to sleep. It returns false if there is no
	// need to sleep, and Wait would return. The lock is held.
	BeginWait(writable bool, at *driver.PollSet) bool
	// EndWait ends the wait that BeginWait began. readable says that the thread has found the event's descriptor
	// readable; if it has not, the descriptor stays readable if it is. The lock is held.
	EndWait(readable bool)
}

// PollSleep moves data for a program's thread that waits, and sleeps outside of Go: see [driver.PollSleeper]. Such a
// thread owns the poll while it sleeps, without anything that it could take along if it never comes back: a handler of
// a signal may jump out of its sleep, and a device may be closed meanwhile.
func (d *Device) PollSleep(w *driver.PollWait, readable bool) (sleep bool) {
	yields := false
	defer func() {
		if yields {
			runtime.Gosched()
		}
	}()
	l := &d.Lane
	l.Mu.Lock()
	defer l.Mu.Unlock()
	if l.dev.Closed.Load() || l.pollWaiter == nil {
		w.Ticket = 0
		return false
	}
	l.sleepers.Add(1)
	defer l.sleepers.Done()
	switch {
	case l.sleepsOutside(w):
		l.endOutside(readable)
		l.moveWoken()
	case !l.ownPoll():
		w.Ticket = 0
		return false
	default:
		w.Ticket = l.pollOwner.changes.Load()
	}
	for !l.ownerDone(w.Awake) {
		if l.spin(w.Awake, clock.Time(w.Spin)) || !l.mayWait(w.Awake) {
			continue
		}
		if l.beginOutside(w) {
			yields = l.sleep.yields(l.Now())
			return true
		}
		l.moveWoken()
	}
	l.disownPoll(w.Armed)
	w.Ticket = 0
	return false
}

// LeavePoll gives up the poll that a thread owns in its sleep.
func (d *Device) LeavePoll(w *driver.PollWait) {
	if w.Ticket == 0 {
		return
	}
	l := &d.Lane
	l.Mu.Lock()
	defer l.Mu.Unlock()
	if l.sleepsOutside(w) && !l.dev.Closed.Load() {
		l.transport.Wake() // the next thread that waits looks at the event that woke this one
		l.endOutside(false)
		l.disownPoll(nil)
	}
	w.Ticket = 0
}

// sleepsOutside reports whether a wait is that of the owner, which sleeps outside of Go.
func (l *Lane) sleepsOutside(w *driver.PollWait) bool {
	return l.pollOwner.outside && w.Ticket == l.pollOwner.changes.Load()
}

// beginOutside begins the owner's sleep outside of Go. It returns false if there is no need to sleep.
func (l *Lane) beginOutside(w *driver.PollWait) bool {
	l.sleep.waitUntil = l.Timers.next()
	l.transport.SetDeadline(l.timeOf(l.sleep.waitUntil))
	if !l.pollWaiter.BeginWait(l.transport.Stalled(), &w.PollSet) {
		l.waited()
		return false
	}
	l.sleep.waiting, l.pollOwner.outside = true, true
	return true
}

// endOutside ends the owner's sleep outside of Go.
func (l *Lane) endOutside(readable bool) {
	l.pollWaiter.EndWait(readable)
	l.pollOwner.outside = false
	l.waited()
}

// replaceStray has the lane's goroutine take over from an owner that did not wake when data arrived. If it does later,
// it finds that it is the owner no more.
func (l *Lane) replaceStray() {
	if l.pollOwner.outside && !l.dev.Closed.Load() && l.move(false) > 0 {
		l.evictOutside()
		l.pollOwner.takeOver = true
	}
}

// forgetOutside takes the poll from an owner that sleeps outside of Go: the device is closed. The thread was woken.
func (l *Lane) forgetOutside() {
	l.Mu.Lock()
	defer l.Mu.Unlock()
	if l.pollOwner.outside {
		l.evictOutside()
	}
}

// evictOutside takes the poll from an owner that sleeps outside of Go.
func (l *Lane) evictOutside() {
	l.endOutside(false)
	l.disownPoll(nil)
	l.pollOwner.stray = true
}

// HasStray reports whether a thread may sleep at the port's descriptors that owns the poll no more. The lock is held.
func (l *Lane) HasStray() bool { return l.pollOwner.stray }
