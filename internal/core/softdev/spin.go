// SPDX-License-Identifier: Apache-2.0

package softdev

import (
	"time"

	"github.com/ramjet-rdma/ramjet/internal/core/clock"
)

const (
	// lookAfter is how many polls in a row that find nothing share a look at the clock, and dozeAfter how
	// many there are before the program dozes while the processor is shared.
	lookAfter = 16
	dozeAfter = 8
	// pollTime is what a poll that finds nothing takes at most. A program whose polls take longer computes
	// between them, and is not to doze.
	pollTime = clock.Time(4 * time.Microsecond)
	// preempted is how long polls that follow each other closely must stop to have lost the processor.
	// It counts as shared, for sharedFor, once so much more than each lostPart-th nanosecond was lost
	// as sharedLoss says: some slices, which are 10 ms on a kernel with 100 ticks a second. Such a kernel
	// runs two processes that have woken each other on one processor for a slice or two, while others idle.
	preempted  = clock.Time(time.Millisecond)
	sharedFor  = clock.Time(100 * time.Millisecond)
	sharedLoss = clock.Time(30 * time.Millisecond)
	lostPart   = 10
	// maxDoze bounds a doze: another thread may bring the completion meanwhile.
	maxDoze = clock.Time(200 * time.Microsecond)
)

// spinner decides what a program whose polls find nothing does next: poll on, or doze until something
// arrives. Where nobody else wants the processor it polls on. Where others do, the system takes the
// processor from the program for a slice of milliseconds, and the clock shows a leap. A program that
// dozes uses up no slice, and gets the processor back as soon as something arrives.
type spinner struct {
	polls  int        // that found nothing since the last look, or since something was found
	looked clock.Time // when the clock was last read, and nothing was found since; zero: never
	close  bool       // polls follow each other closely
	shared clock.Time // the processor counts as shared until then; zero: it does not
	lost   clock.Time // time for which others had the processor, less a part of the time that passed
	lostAt clock.Time // when lost was true
}

// found notes that something arrived.
func (s *spinner) found() { s.polls, s.looked = 0, 0 }

// foundNothing counts a poll that found nothing, and reports whether it is time to read the clock.
func (s *spinner) foundNothing() bool {
	s.polls++
	return s.polls >= lookAfter || s.polls >= dozeAfter && s.shared != 0
}

// look takes the time, and reports whether to doze.
func (s *spinner) look(now clock.Time) bool {
	if s.looked != 0 {
		switch took := now - s.looked; {
		case took <= clock.Time(s.polls)*pollTime:
			s.close = true
		case took < preempted:
			s.close = false
		case s.close:
			s.lose(now, took)
		}
	}
	s.polls, s.looked = 0, now
	if now >= s.shared {
		s.shared = 0
	}
	return s.shared != 0 && s.close
}

// woke takes the time after a doze, which began with the last look. One that lasted too long had to
// wait for the processor.
func (s *spinner) woke(now clock.Time) {
	if late := now - s.looked - maxDoze; late >= preempted {
		s.lose(now, late)
	}
	s.looked = now
}

// lose notes that others had the processor for a time. A slice now and then goes to whatever else the
// machine does, and is no reason to doze: a doze costs as much as hundreds of messages. Beside a busy
// process one slice follows another.
func (s *spinner) lose(now, d clock.Time) {
	s.lost = max(0, s.lost-(now-s.lostAt)/lostPart) + d
	s.lostAt = now
	if s.lost >= sharedLoss {
		// No more than what is left when it has ceased to be shared: one slice is enough to share again.
		s.lost = min(s.lost, sharedLoss+sharedFor/lostPart)
		s.shared = now + sharedFor
	}
}

// Dozer is a [Port] or [Network] at which programs that poll can sleep.
type Dozer interface {
	// Doze returns when something arrives, or after a time. It may return early. The device's lock is not held;
	// any number of goroutines may call it at once, and beside Wait. Close is not called meanwhile.
	Doze(d time.Duration)
}

// dozed counts a poll that found nothing. It reports whether the program has dozed, without the lock, and
// is to look again. The lock is held.
func (l *lane) dozed() bool {
	if l.dozer == nil || !l.spinner.foundNothing() {
		return false
	}
	now := l.now()
	if !l.spinner.look(now) || l.closed || l.mover.pending() || l.mover.stalled() {
		return false
	}
	limit := maxDoze
	if next := l.timers.next(); next != 0 {
		limit = min(limit, next-now)
	}
	if limit <= 0 || !l.mover.arm() {
		return false
	}
	l.dozes.Add(1)
	l.pollers.dozing.Add(1)
	if l.waiting {
		l.mover.wake() // the goroutine is to leave what arrives to the program
	}
	l.mu.Unlock()
	l.dozer.Doze(time.Duration(limit))
	l.mu.Lock()
	if l.waiting {
		l.mover.wake() // what ended the doze may have been meant for the goroutine
	}
	l.pollers.dozing.Add(-1)
	l.dozes.Done()
	l.polled(busyPolls)
	l.spinner.woke(l.now())
	return true
}

// pollsOn reports whether a program polls and is about to do so again, without a doze before: it sends
// what a post leaves to it.
func (l *lane) pollsOn() bool { return l.leased.Load() && l.pollers.dozing.Load() == 0 }
