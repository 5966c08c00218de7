// SPDX-License-Identifier: Apache-2.0

package softdev

import (
	"runtime"
	"time"

	"github.com/ramjet-rdma/ramjet/internal/base/clock"
)

const (
	// lookAfter is how many polls in a row that find nothing share a look at the clock, and crowdedAfter how
	// many there are before the program dozes on a crowded machine. If they follow each other closely, the next
	// atOnce dozes there begin with the first poll that finds nothing.
	lookAfter    = 16
	crowdedAfter = 8
	atOnce       = 32
	// emptyPolls is how many polls in a row find nothing, and follow each other closely, before the program dozes
	// on any machine, and emptyTime how long they take at least: about as long as a wake-up. Where cores are far
	// from each other an answer takes longer than so many polls.
	emptyPolls = 64
	emptyTime  = clock.Time(50 * time.Microsecond)
	// pollTime is the longest time that an empty poll takes. A program whose polls take longer computes
	// between them, and is not to doze. One that stops for the time preempted has lost the processor meanwhile,
	// which says nothing about what it does.
	pollTime  = clock.Time(4 * time.Microsecond)
	preempted = clock.Time(time.Millisecond)
	// maxDoze bounds a doze: the program may wait for something else, too, such as another thread. While dozes on a
	// crowded machine end because something arrives, the bound grows up to longDoze.
	maxDoze  = clock.Time(200 * time.Microsecond)
	longDoze = clock.Time(time.Millisecond)
)

// spinner decides what a program whose polls find nothing does next: poll on, or doze until something
// arrives. A program that dozes uses up no slice of the processor, and gets it back as soon as something
// arrives. One whose polls find nothing loses it for milliseconds to others, when something arrives too.
type spinner struct {
	endless bool       // it polls on for as long as it likes, but on a crowded machine
	crowded bool       // the machine is, as of the last look
	polls   int        // that found nothing since the last look, or since something was found
	empty   int        // those before the last look
	looked  clock.Time // when the clock was last read, and nothing was found since; zero: never
	since   clock.Time // when it was first read since polls find nothing
	close   bool       // polls follow each other closely
	atOnce  int        // dozes that begin with the first poll that finds nothing
	bound   clock.Time // of dozes on a crowded machine, if above maxDoze
}

// found notes that something arrived.
func (s *spinner) found() { s.polls, s.empty, s.looked = 0, 0, 0 }

// foundNothing counts a poll that found nothing, and reports whether it is time to look.
func (s *spinner) foundNothing() bool {
	s.polls++
	return s.polls >= lookAfter || s.crowded && (s.polls >= crowdedAfter || s.atOnce > 0)
}

// dozesAtOnce reports whether the next poll that finds no completion dozes without a look at the network before: what
// has arrived there ends the doze at once.
func (s *spinner) dozesAtOnce() bool { return s.crowded && s.atOnce > 0 }

// look takes the time, and whether the machine is crowded, and reports whether to doze.
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

// longest returns how long a doze takes at most.
func (s *spinner) longest() clock.Time {
	if s.crowded {
		return max(s.bound, maxDoze)
	}
	return maxDoze
}

// woke takes the time after a doze, and whether something has arrived. If not, few more polls lead to the next.
func (s *spinner) woke(now clock.Time, arrived bool) {
	s.looked, s.empty = now, emptyPolls-lookAfter
	if arrived {
		s.bound = min(2*s.longest(), longDoze)
	} else {
		s.bound -= s.bound / 4
	}
}

// Dozer is a port or network at which programs that poll can sleep.
type Dozer interface {
	// Dozes reports whether they can: a port may have that on some systems only.
	Dozes() bool
	// Doze returns when something arrives, or after a time. It may return early. The device's lock is not held;
	// any number of goroutines may call it at once, and beside Wait. Close is not called meanwhile.
	Doze(d time.Duration)
}

// dozed counts a poll that found nothing. It reports whether the program has dozed, without the lock, and
// is to look again, and note with [spinner.woke] what it finds. The lock is held.
func (l *Lane) dozed() bool {
	if l.dozer == nil || !l.spinner.foundNothing() {
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
	if limit <= 0 || !l.transport.Arm() || l.transport.Stalled() { // by what Arm has sent: nobody would wait for room
		return false
	}
	l.dozes.Add(1)
	l.polls.pollers.dozing.Add(1)
	if l.sleep.waiting {
		l.transport.Wake() // the goroutine is to leave what arrives to the program
	}
	yields := l.sleep.yields(now)
	l.Mu.Unlock()
	if yields {
		runtime.Gosched()
	}
	l.dozer.Doze(time.Duration(limit))
	l.Mu.Lock()
	if l.sleep.waiting {
		l.transport.Wake() // what ended the doze may have been meant for the goroutine
	}
	l.polls.pollers.dozing.Add(-1)
	l.dozes.Done()
	l.polled(busyPolls)
	return true
}

// PollsOn reports whether a program polls and is about to do so again, without a doze before: it sends
// what a post leaves to it.
func (l *Lane) PollsOn() bool {
	return l.polls.programPolls.Load() && l.polls.pollers.dozing.Load() == 0
}
