// SPDX-License-Identifier: Apache-2.0

package softdev

import (
	"time"

	"github.com/ramjet-rdma/ramjet/internal/base/clock"
)

const (
	// lookAfter is how many polls in a row that find nothing share a look at the clock, and crowdedAfter how
	// many there are before the program parks on a crowded machine. If they follow each other closely, it then
	// parks atOnce times there after the first poll that finds nothing.
	lookAfter    = 16
	crowdedAfter = 8
	atOnce       = 32
	// emptyPolls is how many polls in a row find nothing, and follow each other closely, before the program parks
	// on any machine, and emptyTime how long they take at least: about as long as a wake-up. Where cores are far
	// from each other an answer takes longer than so many polls.
	emptyPolls = 64
	emptyTime  = clock.Time(50 * time.Microsecond)
	// pollTime is the longest time that an empty poll takes. A program whose polls take longer computes between them,
	// and is not to park. One that stops for the time preempted has lost the processor meanwhile, which does not tell
	// whether it computes.
	pollTime  = clock.Time(4 * time.Microsecond)
	preempted = clock.Time(time.Millisecond)
	// maxPark bounds the time for which a program parks: it may wait for something else, too, such as another
	// thread. While something arrives for parked programs of a crowded machine, the bound grows up to
	// maxParkCrowded.
	maxPark        = clock.Time(200 * time.Microsecond)
	maxParkCrowded = clock.Time(time.Millisecond)
)

// spinner decides whether a program whose polls find nothing polls on, or parks until something arrives. A program that
// parks uses up no slice of the processor, and gets it back as soon as something arrives. One whose polls find nothing
// loses it for milliseconds to others, when something arrives too.
type spinner struct {
	endless bool       // it polls on for as long as it likes, but on a crowded machine
	crowded bool       // the machine is, as of the last look
	polls   int        // that found nothing since the last look, or since something was found
	empty   int        // the empty polls before the last look
	looked  clock.Time // when the clock was last read, and nothing was found since; zero: never
	since   clock.Time // when it was first read since polls find nothing
	close   bool       // polls follow each other closely
	atOnce  int        // how often it still parks after one poll that finds nothing
	bound   clock.Time // how long it parks at most on a crowded machine, if above maxPark
}

// found notes that something arrived.
func (s *spinner) found() { s.polls, s.empty, s.looked = 0, 0, 0 }

// foundNothing counts a poll that found nothing, and reports whether it is time to look.
func (s *spinner) foundNothing() bool {
	s.polls++
	return s.polls >= lookAfter || s.crowded && (s.polls >= crowdedAfter || s.atOnce > 0)
}

// parksAtOnce reports whether the next poll that finds no completion parks without a look at the network before: a
// message there ends the sleep at once.
func (s *spinner) parksAtOnce() bool { return s.crowded && s.atOnce > 0 }

// look takes the time, and whether the machine is crowded, and reports whether to park.
func (s *spinner) look(now clock.Time, crowded bool) bool {
	if s.atOnce > 0 && crowded {
		s.atOnce--
		s.polls, s.looked = 0, now
		return true
	}
	s.empty += s.polls
	if s.looked == 0 {
		s.since = now
	} else {
		switch took := now - s.looked; {
		case took <= clock.Time(s.polls)*pollTime:
			s.close = true
		case took < preempted:
			s.close, s.empty, s.since = false, 0, now
		}
	}
	s.polls, s.looked, s.crowded, s.atOnce = 0, now, crowded, 0
	if s.close && crowded {
		s.atOnce = atOnce
		return true
	}
	return s.close && !s.endless && s.empty >= emptyPolls && now-s.since >= emptyTime
}

// longest returns how long the program parks at most.
func (s *spinner) longest() clock.Time {
	if s.crowded {
		return max(s.bound, maxPark)
	}
	return maxPark
}

// woke takes the time after the program has parked, and whether something has arrived. If not, it parks again after few
// more polls.
func (s *spinner) woke(now clock.Time, arrived bool) {
	s.looked, s.empty = now, emptyPolls-lookAfter
	if arrived {
		s.bound = min(2*s.longest(), maxParkCrowded)
	} else {
		s.bound -= s.bound / 4
	}
}

// Parker is a port or network at which programs that poll can park: sleep for a short time, until something arrives.
type Parker interface {
	// CanPark reports whether the port has Park, which may be so on some systems only.
	CanPark() bool
	// Park returns when something arrives, or after a time. It may return early. The device's lock is not held;
	// any number of goroutines may call it at once, and beside Wait. Close is not called meanwhile.
	Park(d time.Duration)
}

// parked counts a poll that found nothing. It reports whether the program has parked, without the lock, and is to poll
// again, and call [spinner.woke] with the result. The lock is held.
func (l *Lane) parked() bool {
	if l.parker == nil || !l.spinner.foundNothing() {
		return false
	}
	now := l.Now()
	if !l.spinner.look(now, l.crowded()) || l.dev.Closed.Load() || l.transport.Pending() || l.transport.Stalled() {
		return false
	}
	limit := l.spinner.longest()
	if next := l.Timers.next(); next != 0 {
		limit = min(limit, next-now)
	}
	if limit <= 0 || !l.transport.Arm() || l.transport.Stalled() { // stalled by Arm: nobody would wait for room
		return false
	}
	l.sleepers.Add(1)
	l.polls.pollers.parked.Add(1)
	if l.sleep.waiting {
		l.transport.Wake() // the goroutine is to leave arrivals to the program
	}
	l.unlockToSleep(now)
	l.parker.Park(time.Duration(limit))
	l.Mu.Lock()
	if l.sleep.waiting {
		l.transport.Wake() // the event that ended the sleep may have been meant for the goroutine
	}
	l.polls.pollers.parked.Add(-1)
	l.sleepers.Done()
	l.polled(busyPolls)
	return true
}

// PollsOn reports whether a program polls and is about to do so again, without parking before: it sends the packets
// that a post leaves to it.
func (l *Lane) PollsOn() bool {
	return l.polls.programPolls.Load() && l.polls.pollers.parked.Load() == 0
}
