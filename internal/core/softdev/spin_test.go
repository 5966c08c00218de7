// SPDX-License-Identifier: Apache-2.0

package softdev

import (
	"testing"
	"time"

	"github.com/ramjet-rdma/ramjet/internal/base/clock"
)

// spinScript is a program whose polls find nothing, and its clock.
type spinScript struct {
	t *testing.T
	spinner
	now     clock.Time
	crowded bool
}

// poll polls n times without finding anything, each of which takes a time, and reports whether it parks after the
// last. Before that it must not.
func (s *spinScript) poll(times int, each time.Duration) (park bool) {
	s.t.Helper()
	for i := range times {
		s.now += clock.Time(each)
		if park = s.foundNothing() && s.look(s.now, s.crowded); park && i < times-1 {
			s.t.Fatalf("it parks after %d of %d polls", i+1, times)
		}
	}
	return park
}

// polls is poll, and says whether it is to park then.
func (s *spinScript) polls(times int, each time.Duration, park bool) {
	s.t.Helper()
	if got := s.poll(times, each); got != park {
		s.t.Fatalf("after %d polls of %v it parks: %v, want %v", times, each, got, park)
	}
}

// parks ends the sleep of a parked program after a time, in which nothing arrives.
func (s *spinScript) parks(d time.Duration) {
	s.now += clock.Time(d)
	s.woke(s.now, false)
}

// arrives ends the sleep of a parked program after a time, as something has arrived.
func (s *spinScript) arrives(after time.Duration) {
	s.now += clock.Time(after)
	s.woke(s.now, true)
}

func newSpinScript(t *testing.T) *spinScript { return &spinScript{t: t, now: clock.Time(time.Second)} }

const quick = 300 * time.Nanosecond

// enough is how many quick polls take as long as a wake-up: the clock is read first after a few, and then after each
// few.
const enough = lookAfter + (int(emptyTime)/int(quick)+lookAfter)/lookAfter*lookAfter

// TestSpin polls in empty: it parks after as many polls as take as long as a wake-up, and sooner after parking in
// which nothing came.
func TestSpin(t *testing.T) {
	s := newSpinScript(t)
	s.polls(enough, quick, true)
	for range 10 {
		s.parks(time.Duration(maxPark))
		s.polls(lookAfter, quick, true)
	}
	s.parks(10 * time.Microsecond)
	s.found()
	s.polls(enough, quick, true)
}

// TestSpinSlow polls slowly: so many polls are enough, whatever the time.
func TestSpinSlow(t *testing.T) {
	s := newSpinScript(t)
	s.polls(emptyPolls, 2*time.Microsecond, true)
}

// TestSpinFinds finds something before it would park, again and again.
func TestSpinFinds(t *testing.T) {
	s := newSpinScript(t)
	for range 100 {
		s.polls(enough-1, quick, false)
		s.found()
	}
}

// TestSpinEndless polls where nothing arrives and nobody would wake it: it parks on a crowded machine only.
func TestSpinEndless(t *testing.T) {
	s := newSpinScript(t)
	s.endless = true
	s.polls(100*emptyPolls, quick, false)
	s.crowded = true
	s.polls(lookAfter, quick, true)
	s.crowded = false
	s.parks(time.Duration(maxPark))
	s.polls(crowdedAfter, quick, false)
	s.polls(100*emptyPolls, quick, false)
}

// TestSpinCrowded polls on a crowded machine: it parks after each few polls, also after it has found something.
func TestSpinCrowded(t *testing.T) {
	s := newSpinScript(t)
	s.crowded = true
	for range 10 {
		s.polls(crowdedAfter, quick, false)
		s.found()
	}
	s.polls(lookAfter+crowdedAfter, quick, true)
	for range 3 {
		for range atOnce {
			s.arrives(50 * time.Microsecond)
			s.found()
			s.polls(1, quick, true)
		}
		s.arrives(50 * time.Microsecond)
		s.found()
		s.polls(crowdedAfter, quick, true) // do they still follow each other closely?
	}
	s.crowded = false
	s.arrives(50 * time.Microsecond)
	s.polls(1, quick, false)
	s.found()
	s.polls(enough, quick, true)
}

// TestSpinBound parks on a crowded machine: for longer while that ends because something arrives, and for as long as
// elsewhere where nothing does.
func TestSpinBound(t *testing.T) {
	s := newSpinScript(t)
	s.crowded = true
	s.polls(2*lookAfter-(lookAfter-crowdedAfter), quick, true)
	bounds := func(times int, end func(time.Duration), want clock.Time) {
		t.Helper()
		for range times {
			end(50 * time.Microsecond)
			s.atOnce = atOnce
			s.polls(1, quick, true)
		}
		if got := s.longest(); got != want {
			t.Errorf("it parks for %v, want %v", time.Duration(got), time.Duration(want))
		}
	}
	bounds(1, s.parks, maxPark)
	bounds(1, s.arrives, 2*maxPark)
	bounds(10, s.arrives, maxParkCrowded)
	bounds(1, s.parks, maxParkCrowded-maxParkCrowded/4)
	bounds(1, s.arrives, maxParkCrowded)
	bounds(20, s.parks, maxPark)
	bounds(10, s.arrives, maxParkCrowded)
	s.crowded = false
	s.polls(1, quick, false)
	if got := s.longest(); got != maxPark {
		t.Errorf("on a quiet machine it parks for %v", time.Duration(got))
	}
}

// TestSpinPreempted loses the processor for a slice between polls: that says nothing about the program.
func TestSpinPreempted(t *testing.T) {
	s := newSpinScript(t)
	s.polls(3*lookAfter, quick, false)
	s.polls(lookAfter-1, quick, false)
	s.polls(1, 4*time.Millisecond, true)
}

// TestSpinComputes polls between pieces of work: it does not park, whether the machine is crowded or not, and
// whether the system takes the processor away meanwhile or not.
func TestSpinComputes(t *testing.T) {
	for _, crowded := range []bool{false, true} {
		s := newSpinScript(t)
		s.crowded = crowded
		for range 100 {
			s.polls(lookAfter/2, 20*time.Microsecond, false)
			s.polls(lookAfter/2, time.Millisecond, false)
		}
	}
	s := newSpinScript(t)
	s.polls(enough, quick, true) // then it begins to
	s.parks(time.Duration(maxPark))
	s.polls(100*lookAfter, 20*time.Microsecond, false)
}
