// SPDX-License-Identifier: Apache-2.0

package softdev

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/ramjet-rdma/ramjet/internal/base/clock"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// spinScript is a program whose polls find nothing, and its clock.
type spinScript struct {
	t *testing.T
	spinner
	now     clock.Time
	crowded bool
}

// poll polls n times without finding anything, each of which takes a time, and reports whether it dozes after the
// last. Before that it must not.
func (s *spinScript) poll(times int, each time.Duration) (doze bool) {
	s.t.Helper()
	for i := range times {
		s.now += clock.Time(each)
		if doze = s.foundNothing() && s.look(s.now, s.crowded); doze && i < times-1 {
			s.t.Fatalf("it dozes after %d of %d polls", i+1, times)
		}
	}
	return doze
}

// polls is poll, and says whether it is to doze then.
func (s *spinScript) polls(times int, each time.Duration, doze bool) {
	s.t.Helper()
	if got := s.poll(times, each); got != doze {
		s.t.Fatalf("after %d polls of %v it dozes: %v, want %v", times, each, got, doze)
	}
}

// dozes ends a doze after a time.
func (s *spinScript) dozes(d time.Duration) {
	s.now += clock.Time(d)
	s.woke(s.now)
}

func newSpinScript(t *testing.T) *spinScript { return &spinScript{t: t, now: clock.Time(time.Second)} }

const quick = 300 * time.Nanosecond

// enough is how many quick polls take as long as a wake-up: the clock is read first after a few, and then after each
// few.
const enough = lookAfter + (int(emptyTime)/int(quick)+lookAfter)/lookAfter*lookAfter

// TestSpin polls in empty: it dozes after as many polls as take as long as a wake-up, and sooner after a doze in
// which nothing came.
func TestSpin(t *testing.T) {
	s := newSpinScript(t)
	s.polls(enough, quick, true)
	for range 10 {
		s.dozes(maxTestDoze)
		s.polls(lookAfter, quick, true)
	}
	s.dozes(10 * time.Microsecond)
	s.found()
	s.polls(enough, quick, true)
}

// TestSpinSlow polls slowly: so many polls are enough, whatever the time.
func TestSpinSlow(t *testing.T) {
	s := newSpinScript(t)
	s.polls(emptyPolls, 2*time.Microsecond, true)
}

// TestSpinFinds finds something before it would doze, again and again.
func TestSpinFinds(t *testing.T) {
	s := newSpinScript(t)
	for range 100 {
		s.polls(enough-1, quick, false)
		s.found()
	}
}

// TestSpinEndless polls where nothing arrives and nobody would end a doze: it dozes on a crowded machine only.
func TestSpinEndless(t *testing.T) {
	s := newSpinScript(t)
	s.endless = true
	s.polls(100*emptyPolls, quick, false)
	s.crowded = true
	s.polls(lookAfter, quick, true)
	s.crowded = false
	s.dozes(maxTestDoze)
	s.polls(crowdedAfter, quick, false)
	s.polls(100*emptyPolls, quick, false)
}

// TestSpinCrowded polls on a crowded machine where nothing arrives: each few polls end in a doze, also after it has found
// something.
func TestSpinCrowded(t *testing.T) {
	s := newSpinScript(t)
	s.crowded = true
	s.polls(2*lookAfter-(lookAfter-crowdedAfter), quick, true)
	for range 10 {
		s.dozes(50 * time.Microsecond)
		s.found()
		s.polls(crowdedAfter, quick, true)
	}
}

// TestSpinPreempted loses the processor for a slice between polls: that says nothing about the program.
func TestSpinPreempted(t *testing.T) {
	s := newSpinScript(t)
	s.polls(3*lookAfter, quick, false)
	s.polls(lookAfter-1, quick, false)
	s.polls(1, 4*time.Millisecond, true)
}

// TestSpinComputes polls between pieces of work: it does not doze, whether the machine is crowded or not, and
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
	s.dozes(maxTestDoze)
	s.polls(100*lookAfter, 20*time.Microsecond, false)
}

const maxTestDoze = time.Duration(maxDoze)

// dozePort is a port at which programs can doze.
type dozePort struct {
	*memPort
	doze atomic.Pointer[func(time.Duration)]
}

func (p *dozePort) Dozes() bool { return true }

func (p *dozePort) Doze(d time.Duration) {
	if f := p.doze.Load(); f != nil {
		(*f)(d)
	}
}

// share has the next poll that finds nothing doze.
func (s *side) share() {
	s.soft.Lane.Mu.Lock()
	defer s.soft.Lane.Mu.Unlock()
	s.soft.Lane.spinner = spinner{polls: crowdedAfter, close: true, crowded: true}
}

// newDozers makes a pair whose programs can doze.
func newDozers(t *testing.T) (a, b *side, port *dozePort) {
	a, b = newPair(t)
	port = &dozePort{memPort: a.port}
	a.soft.Lane.Mu.Lock()
	defer a.soft.Lane.Mu.Unlock()
	a.soft.Lane.dozer, a.soft.Lane.crowded = port, func() bool { return true }
	return a, b, port
}

// TestDoze holds that a program dozes no longer than the next timer lets it, and that meanwhile others have
// the device: what another goroutine posts leaves at once, and the poll that dozed finds its completion.
func TestDoze(t *testing.T) {
	a, b, port := newDozers(t)
	var wc [1]verbs.WC
	var limits []time.Duration
	posted := false
	doze := func(d time.Duration) {
		limits = append(limits, d)
		if !posted {
			posted = true
			a.write(b, 8)
		}
	}
	port.doze.Store(&doze)
	a.eventually(func() bool {
		a.share()
		return a.cq.Poll(wc[:]) == 1
	}, "the completion")
	if !posted || wc[0].Status != verbs.StatusSuccess {
		t.Errorf("dozed: %v, %v", posted, wc[0].Status)
	}
	for _, d := range limits {
		if d <= 0 || d > maxTestDoze {
			t.Errorf("dozes for %v", d)
		}
	}

	limits = nil
	soon := Timer{Fire: func() {}}
	a.eventually(func() bool {
		a.soft.Lane.Mu.Lock()
		a.soft.Lane.Timers.Set(&soon, a.soft.Lane.Now()+maxDoze/2)
		a.soft.Lane.Mu.Unlock()
		a.share()
		a.cq.Poll(wc[:])
		return len(limits) > 0
	}, "a doze before the timer")
	if limits[0] > maxTestDoze/2 {
		t.Errorf("it dozes for %v, and a timer is due before", limits[0])
	}
}

// TestDozeLeavesNothing holds that the device's goroutine keeps away from what arrives while a
// program dozes, unless another one asks for an event.
func TestDozeLeavesNothing(t *testing.T) {
	a, _, port := newDozers(t)
	var wc [1]verbs.WC
	for range 4 * busyPolls {
		a.cq.Poll(wc[:])
	}
	dozing, wake := make(chan struct{}), make(chan struct{})
	doze := func(time.Duration) { dozing <- struct{}{}; <-wake }
	port.doze.Store(&doze)
	polled := make(chan struct{})
	go func() {
		defer close(polled)
		a.share()
		a.cq.Poll(wc[:])
	}()
	<-dozing
	programPolls := func() bool { return a.soft.Lane.polls.programPolls.Load() }
	a.eventually(programPolls, "the goroutine keeps away")
	if err := a.cq.ReqNotify(false); err != nil {
		t.Fatal(err)
	}
	a.asleep()
	if programPolls() {
		t.Error("it keeps away from a program that waits for an event")
	}
	close(wake)
	<-polled
}

// TestCloseDuringDoze holds that a device is closed when nobody dozes at its port any more.
func TestCloseDuringDoze(t *testing.T) {
	a, _, port := newDozers(t)
	dozing, wake := make(chan struct{}), make(chan struct{})
	dozed := false
	doze := func(time.Duration) {
		dozed = true
		close(dozing)
		<-wake
		if a.port.isClosed() {
			t.Error("the port is closed during a doze")
		}
	}
	port.doze.Store(&doze)
	polled := make(chan int)
	go func() {
		var wc [1]verbs.WC
		n := 0
		for !dozed { // the device's goroutine may have the lock
			a.share()
			n = a.cq.Poll(wc[:])
		}
		polled <- n
	}()
	<-dozing
	closed := make(chan error)
	go func() { closed <- a.soft.Close() }()
	a.eventually(func() bool {
		a.soft.Lane.Mu.Lock()
		defer a.soft.Lane.Mu.Unlock()
		return a.soft.Lane.Closed
	}, "it is closing")
	close(wake)
	if n := <-polled; n != 0 {
		t.Errorf("polled %d completions of a closed device", n)
	}
	if err := <-closed; err != nil {
		t.Error(err)
	}
}

// TestArrivalsAreFinds holds that a poll which takes arrived data is not an empty one, whether that
// completes anything or not: the target of WRITEs gets no completions.
func TestArrivalsAreFinds(t *testing.T) {
	a, b, port := newDozers(t)
	doze := func(time.Duration) {}
	port.doze.Store(&doze)
	var wc [1]verbs.WC
	a.eventually(func() bool { // the goroutine may be faster
		b.cq.Poll(wc[:])
		b.write(a, 8)
		a.share()
		a.cq.Poll(wc[:])
		a.soft.Lane.Mu.Lock()
		defer a.soft.Lane.Mu.Unlock()
		return a.soft.Lane.spinner.polls == 0 && a.soft.Lane.spinner.looked == 0
	}, "a poll with an arrival that does not end in a doze")
}

// TestDozeNotForSleep holds that a program which slept for an event, after polls that followed each other
// closely, has as many polls as any before it dozes.
func TestDozeNotForSleep(t *testing.T) {
	a, _, port := newDozers(t)
	doze := func(time.Duration) { t.Error("it dozes") }
	port.doze.Store(&doze)
	a.soft.Lane.Mu.Lock()
	a.soft.Lane.crowded = func() bool { return false }
	a.soft.Lane.spinner = spinner{close: true, empty: emptyPolls - 1, looked: a.soft.Lane.Now() - clock.Time(time.Second/2)}
	a.soft.Lane.Mu.Unlock()
	if err := a.cq.ReqNotify(false); err != nil {
		t.Fatal(err)
	}
	var wc [1]verbs.WC
	for range emptyPolls - 1 {
		a.cq.Poll(wc[:])
	}
}
