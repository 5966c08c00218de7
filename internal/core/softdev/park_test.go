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

const maxTestPark = time.Duration(softdev.MaxPark)

// parkPort is a port at which programs can park.
type parkPort struct {
	*memhub.Port
	park atomic.Pointer[func(time.Duration)]
}

func (p *parkPort) CanPark() bool { return true }

func (p *parkPort) Park(d time.Duration) {
	if f := p.park.Load(); f != nil {
		(*f)(d)
	}
}

// share has the next poll that finds nothing park.
func (s *side) share() {
	s.soft.Lane.Mu.Lock()
	defer s.soft.Lane.Mu.Unlock()
	s.soft.Lane.Share()
}

// newParkers makes a pair whose programs can park.
func newParkers(t *testing.T) (a, b *side, port *parkPort) {
	a, b = newPair(t)
	port = &parkPort{Port: a.Port}
	a.soft.Lane.Mu.Lock()
	defer a.soft.Lane.Mu.Unlock()
	a.soft.Lane.ParkAt(port)
	return a, b, port
}

// TestPark holds that a program parks no longer than the next timer lets it, and that meanwhile others have the device:
// a post of another goroutine leaves at once, and the poll that parked finds its completion.
func TestPark(t *testing.T) {
	a, b, port := newParkers(t)
	var wc [1]verbs.WC
	var limits []time.Duration
	posted := false
	park := func(d time.Duration) {
		limits = append(limits, d)
		if !posted {
			posted = true
			a.Write(&b.Side, 8)
		}
	}
	port.park.Store(&park)
	a.Eventually(func() bool {
		a.share()
		return a.CQ.Poll(wc[:]) == 1
	}, "the completion")
	if !posted || wc[0].Status != verbs.StatusSuccess {
		t.Errorf("parked: %v, %v", posted, wc[0].Status)
	}
	for _, d := range limits {
		if d <= 0 || d > maxTestPark {
			t.Errorf("parks for %v", d)
		}
	}

	soon := softdev.Timer{Fire: func() {}}
	a.Eventually(func() bool {
		limits = nil
		a.soft.Lane.Mu.Lock()
		a.soft.Lane.Timers.Set(&soon, a.soft.Lane.Now()+softdev.MaxPark/2)
		a.soft.Lane.Mu.Unlock()
		a.share()
		a.CQ.Poll(wc[:]) // which may come after the timer
		return len(limits) > 0 && limits[0] <= maxTestPark/2
	}, "a program that is parked until the timer")
}

// TestParkAtOnce holds that a program whose polls find nothing on a crowded machine parks without a look at the network
// before, and that the poll finds the message that ends the sleep.
func TestParkAtOnce(t *testing.T) {
	a, b, port := newParkers(t)
	var wc [1]verbs.WC
	looks, posted := int32(0), false
	park := func(time.Duration) {
		looks = a.Port.Receives.Load()
		if !posted {
			posted = true
			a.Write(&b.Side, 8)
		}
	}
	port.park.Store(&park)
	found := 0
	a.Eventually(func() bool { // the device's goroutine may look, too
		before := a.Port.Receives.Load()
		looks = before + 1
		a.soft.Lane.Mu.Lock()
		a.soft.Lane.ShareAtOnce()
		a.soft.Lane.Mu.Unlock()
		found += a.CQ.Poll(wc[:])
		return looks == before
	}, "a sleep without a look before")
	a.Eventually(func() bool {
		found += a.CQ.Poll(wc[:])
		return found == 1
	}, "the completion")
}

// TestNoLookBeforeSleep holds that a program which waits for events on a crowded machine makes no pass for the poll
// between its request for an event and its sleep, which looks anyway, and one for each other poll.
func TestNoLookBeforeSleep(t *testing.T) {
	a, _, _ := newParkers(t)
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

// TestParkLeavesNothing holds that the device's goroutine keeps away from what arrives while a
// program parks, unless another one asks for an event.
func TestParkLeavesNothing(t *testing.T) {
	a, _, port := newParkers(t)
	var wc [1]verbs.WC
	for range 4 * softdev.BusyPolls {
		a.CQ.Poll(wc[:])
	}
	asleep, wake := make(chan struct{}), make(chan struct{})
	parked := false
	park := func(time.Duration) { parked = true; asleep <- struct{}{}; <-wake }
	port.park.Store(&park)
	polled := make(chan struct{})
	go func() {
		defer close(polled)
		for !parked { // the device's goroutine may have the lock
			a.share()
			a.CQ.Poll(wc[:])
		}
	}()
	<-asleep
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

// TestCloseWhileParked holds that a device is closed when nobody parks at its port any more.
func TestCloseWhileParked(t *testing.T) {
	a, _, port := newParkers(t)
	asleep, wake := make(chan struct{}), make(chan struct{})
	parked := false
	park := func(time.Duration) {
		parked = true
		close(asleep)
		<-wake
		if a.Port.IsClosed() {
			t.Error("the port is closed while a program is parked")
		}
	}
	port.park.Store(&park)
	polled := make(chan int)
	go func() {
		var wc [1]verbs.WC
		n := 0
		for !parked { // the device's goroutine may have the lock
			a.share()
			n = a.CQ.Poll(wc[:])
		}
		polled <- n
	}()
	<-asleep
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
	a, b, port := newParkers(t)
	park := func(time.Duration) {}
	port.park.Store(&park)
	var wc [1]verbs.WC
	a.Eventually(func() bool { // the goroutine may be faster
		b.CQ.Poll(wc[:])
		b.Write(&a.Side, 8)
		a.share()
		a.CQ.Poll(wc[:])
		a.soft.Lane.Mu.Lock()
		defer a.soft.Lane.Mu.Unlock()
		return a.soft.Lane.Found()
	}, "a poll with an arrival after which the program does not park")
}

// TestParkNotForSleep holds that a program which slept for an event, after polls that followed each other
// closely, has as many polls as any before it parks.
func TestParkNotForSleep(t *testing.T) {
	a, _, port := newParkers(t)
	park := func(time.Duration) { t.Error("it parks") }
	port.park.Store(&park)
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
