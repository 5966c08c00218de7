// SPDX-License-Identifier: Apache-2.0

package softdev_test

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/ramjet-rdma/ramjet/internal/core/softdev"
	"github.com/ramjet-rdma/ramjet/internal/testkit/memhub"
	"github.com/ramjet-rdma/ramjet/verbs"
)

const maxTestDoze = time.Duration(softdev.MaxDoze)

// dozePort is a port at which programs can doze.
type dozePort struct {
	*memhub.Port
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
	s.soft.Lane.Share()
}

// newDozers makes a pair whose programs can doze.
func newDozers(t *testing.T) (a, b *side, port *dozePort) {
	a, b = newPair(t)
	port = &dozePort{Port: a.Port}
	a.soft.Lane.Mu.Lock()
	defer a.soft.Lane.Mu.Unlock()
	a.soft.Lane.DozeAt(port)
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
			a.Write(&b.Side, 8)
		}
	}
	port.doze.Store(&doze)
	a.Eventually(func() bool {
		a.share()
		return a.CQ.Poll(wc[:]) == 1
	}, "the completion")
	if !posted || wc[0].Status != verbs.StatusSuccess {
		t.Errorf("dozed: %v, %v", posted, wc[0].Status)
	}
	for _, d := range limits {
		if d <= 0 || d > maxTestDoze {
			t.Errorf("dozes for %v", d)
		}
	}

	soon := softdev.Timer{Fire: func() {}}
	a.Eventually(func() bool {
		limits = nil
		a.soft.Lane.Mu.Lock()
		a.soft.Lane.Timers.Set(&soon, a.soft.Lane.Now()+softdev.MaxDoze/2)
		a.soft.Lane.Mu.Unlock()
		a.share()
		a.CQ.Poll(wc[:]) // which may come after the timer
		return len(limits) > 0 && limits[0] <= maxTestDoze/2
	}, "a doze that ends with the timer")
}

// TestDozeAtOnce holds that a program whose polls find nothing on a crowded machine dozes without a look at the network
// before, and that the poll finds what ended the doze.
func TestDozeAtOnce(t *testing.T) {
	a, b, port := newDozers(t)
	var wc [1]verbs.WC
	looks, posted := int32(0), false
	doze := func(time.Duration) {
		looks = a.Port.Receives.Load()
		if !posted {
			posted = true
			a.Write(&b.Side, 8)
		}
	}
	port.doze.Store(&doze)
	found := 0
	a.Eventually(func() bool { // the device's goroutine may look, too
		before := a.Port.Receives.Load()
		looks = before + 1
		a.soft.Lane.Mu.Lock()
		a.soft.Lane.ShareAtOnce()
		a.soft.Lane.Mu.Unlock()
		found += a.CQ.Poll(wc[:])
		return looks == before
	}, "a doze without a look before")
	a.Eventually(func() bool {
		found += a.CQ.Poll(wc[:])
		return found == 1
	}, "the completion")
}

// TestNoLookBeforeSleep holds that a program which waits for events on a crowded machine makes no pass for the poll
// between its request for an event and its sleep, which looks anyway, and one for each other poll.
func TestNoLookBeforeSleep(t *testing.T) {
	a, _, _ := newDozers(t)
	var wc [1]verbs.WC
	calls := 0
	a.soft.Sleep(func() bool { calls++; return calls > 1 }, nil, verbs.DefaultSpin)
	a.Asleep()
	for range 3 {
		a.OK(a.CQ.ReqNotify(false))
		for i, want := range []int32{0, 1, 1} {
			before := a.Port.Receives.Load()
			a.CQ.Poll(wc[:])
			if made := a.Port.Receives.Load() - before; made != want {
				t.Errorf("poll %d: %d passes, want %d", i, made, want)
			}
		}
	}
}

// TestDozeLeavesNothing holds that the device's goroutine keeps away from what arrives while a
// program dozes, unless another one asks for an event.
func TestDozeLeavesNothing(t *testing.T) {
	a, _, port := newDozers(t)
	var wc [1]verbs.WC
	for range 4 * softdev.BusyPolls {
		a.CQ.Poll(wc[:])
	}
	dozing, wake := make(chan struct{}), make(chan struct{})
	doze := func(time.Duration) { dozing <- struct{}{}; <-wake }
	port.doze.Store(&doze)
	polled := make(chan struct{})
	go func() {
		defer close(polled)
		a.share()
		a.CQ.Poll(wc[:])
	}()
	<-dozing
	programPolls := func() bool { return a.soft.Lane.ProgramPolls() }
	a.Eventually(programPolls, "the goroutine keeps away")
	if err := a.CQ.ReqNotify(false); err != nil {
		t.Fatal(err)
	}
	a.Asleep()
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
		if a.Port.IsClosed() {
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
			n = a.CQ.Poll(wc[:])
		}
		polled <- n
	}()
	<-dozing
	closed := make(chan error)
	go func() { closed <- a.soft.Close() }()
	a.Eventually(func() bool {
		a.soft.Lane.Mu.Lock()
		defer a.soft.Lane.Mu.Unlock()
		return a.soft.Closed.Load()
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
	a.Eventually(func() bool { // the goroutine may be faster
		b.CQ.Poll(wc[:])
		b.Write(&a.Side, 8)
		a.share()
		a.CQ.Poll(wc[:])
		a.soft.Lane.Mu.Lock()
		defer a.soft.Lane.Mu.Unlock()
		return a.soft.Lane.Found()
	}, "a poll with an arrival that does not end in a doze")
}

// TestDozeNotForSleep holds that a program which slept for an event, after polls that followed each other
// closely, has as many polls as any before it dozes.
func TestDozeNotForSleep(t *testing.T) {
	a, _, port := newDozers(t)
	doze := func(time.Duration) { t.Error("it dozes") }
	port.doze.Store(&doze)
	a.soft.Lane.Mu.Lock()
	a.soft.Lane.Slept()
	a.soft.Lane.Mu.Unlock()
	if err := a.CQ.ReqNotify(false); err != nil {
		t.Fatal(err)
	}
	var wc [1]verbs.WC
	for range softdev.EmptyPolls - 1 {
		a.CQ.Poll(wc[:])
	}
}
