// SPDX-License-Identifier: Apache-2.0

package softdev

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ramjet-rdma/ramjet/internal/base/clock"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// wait waits for a completion, asleep.
func (s *side) wait() verbs.WC {
	s.t.Helper()
	var wc [1]verbs.WC
	_, err := s.cq.Wait(s.t.Context(), wc[:])
	s.ok(err)
	return wc[0]
}

// asleep waits until the device's goroutine sleeps at the port.
func (s *side) asleep() {
	s.t.Helper()
	s.eventually(func() bool { return s.port.waiting.Load() == 1 }, "the goroutine sleeps at the port")
}

// TestIdle holds that an idle device sleeps: the port is asked nothing while time passes.
func TestIdle(t *testing.T) {
	a, b := newPair(t)
	a.write(b, 8)
	a.wait()
	a.eventually(func() bool { // its first timer may come once more
		a.asleep()
		receives, waits := a.port.receives.Load(), a.port.waits.Load()
		time.Sleep(100 * time.Millisecond)
		return receives == a.port.receives.Load() && waits == a.port.waits.Load()
	}, "the port has rest")
}

// TestWaitFails holds that a device goes on while the system has no room for what waiting takes.
func TestWaitFails(t *testing.T) {
	a, b := newPair(t)
	b.port.broken.Store(true)
	waits := b.port.waits.Load()
	b.port.Wake()
	b.eventually(func() bool { return b.port.waits.Load() > waits }, "it wants to wait")
	a.write(b, 8)
	if wc := a.wait(); wc.Status != verbs.StatusSuccess {
		t.Error(wc.Status)
	}
}

// TestGracePeriod holds that a program which polls has the port for itself, that the goroutine
// takes over once it stops, and at once when it says that it goes to sleep.
func TestGracePeriod(t *testing.T) {
	a, b := newPair(t)
	poll := func() { a.cq.Poll(make([]verbs.WC, 1)) }
	programPolls := func() bool {
		a.soft.Lane.Mu.Lock()
		defer a.soft.Lane.Mu.Unlock()
		return a.soft.Lane.polls.programPolls.Load()
	}
	a.eventually(func() bool {
		a.port.Wake() // it looks around, and sees the polls
		for range 1000 {
			poll()
		}
		return programPolls()
	}, "left to the program that polls")
	if err := a.cq.ReqNotify(false); err != nil {
		t.Fatal(err)
	}
	if programPolls() {
		t.Error("left to a program that goes to sleep")
	}
	a.asleep()
	for range 1000 {
		poll()
	}
	b.write(a, 5000) // nobody polls at a any more
	if wc := b.wait(); wc.Status != verbs.StatusSuccess {
		t.Error(wc.Status)
	}
}

// TestPollBeforeSleep holds that the poll which a program makes after it asked for an event, and
// which may move a lot, is no sign that it goes on polling; many are.
func TestPollBeforeSleep(t *testing.T) {
	d := &Lane{start: time.Now().Add(-time.Hour)}
	p := &d.polls.pollers
	busy := func() bool { return p.busy(clock.Time(p.recent.Load())) } // at the time of the last poll
	for range 3 {
		for range 3 * busyPolls {
			d.polled(1)
		}
		if !busy() {
			t.Fatal("a program that polls is not taken for one")
		}
		p.sleep()
		for range 3 {
			d.polledRarely()
			d.polled(longPoll)
		}
		if !p.asleep() {
			t.Error("a poll after the program said that it sleeps is taken for many")
		}
	}
}

// TestFewPolls holds that a program whose polls each find much, of which few fit into a grace period, is left alone, and one
// that has ceased to poll is not.
func TestFewPolls(t *testing.T) {
	d := &Lane{start: time.Now().Add(-time.Hour)}
	p := &d.polls.pollers
	for range 3 * busyPolls {
		d.polled(1)
	}
	now := d.Now()
	for range 10 {
		for range gracePolls {
			now += clock.Time(GracePeriod) / gracePolls
			p.at(now)
			p.count.Add(1)
		}
		if !p.busy(now + 1) {
			t.Fatal("a program that polls and finds much is not taken for one that polls")
		}
	}
	p.count.Add(gracePolls)
	if p.busy(now + recently) {
		t.Error("a program that has ceased to poll is taken for one that polls")
	}
	p.sleep()
	if p.at(now + recently); !p.asleep() {
		t.Error("a poll after the program said that it sleeps is taken for many")
	}
}

// TestAcksBeforeSleep holds that the goroutine does not go to sleep with acknowledgements that
// are held back for a program that has polled, however few passes it made after that.
func TestAcksBeforeSleep(t *testing.T) {
	a, b := newPair(t)
	held := func() (int, bool) {
		b.soft.Lane.Mu.Lock()
		defer b.soft.Lane.Mu.Unlock()
		return len(b.soft.schedule.heldAcks), b.soft.schedule.answers && b.soft.Lane.polls.programPolls.Load()
	}
	var sleeps chan int
	b.eventually(func() bool {
		b.port.slow.Store(0)
		b.port.atWait.Store(nil)
		a.write(b, 8)
		b.port.Wake() // it looks around, and sees the polls
		for range 1000 {
			b.cq.Poll(make([]verbs.WC, 1))
			if n, _ := held(); n > 0 && b.soft.Lane.polls.programPolls.Load() {
				break
			}
		}
		b.write(a, 8)                  // as who answers does
		b.port.slow.Store(int64(spin)) // one pass without anything is enough to go to sleep
		first := make(chan int, 1)
		b.port.atWait.Store(new(func() {
			n, _ := held()
			select {
			case first <- n:
			default:
			}
		}))
		sleeps = first
		n, so := held()
		return n > 0 && so
	}, "the acknowledgement is held back, and the goroutine leaves the program alone")
	if n := <-sleeps; n > 0 {
		t.Errorf("it sleeps with %d acknowledgements held back", n)
	}
}

// TestPortFull holds that what a port does not take is sent later, in order and once.
func TestPortFull(t *testing.T) {
	a, b := newPair(t)
	a.mr.Do(func(p []byte) {
		for i := range p {
			p[i] = byte(i * 7)
		}
	})
	a.port.full.Store(true)
	for range 5 {
		a.write(b, 1<<20)
	}
	a.asleep() // until the port takes more
	a.port.in.change(func() { a.port.full.Store(false) })
	for range 5 {
		if wc := a.wait(); wc.Status != verbs.StatusSuccess {
			t.Fatal(wc.Status)
		}
	}
	b.mr.Do(func(p []byte) {
		for i := range p {
			if p[i] != byte(i*7) {
				t.Fatalf("byte %d is %d", i, p[i])
			}
		}
	})
}

// TestTimersWhileAsleep loses packets while nobody polls: the goroutine's deadline brings
// them again, and the end of all retries.
func TestTimersWhileAsleep(t *testing.T) {
	var h hub
	a, b := h.newSide(t), h.newSide(t)
	short := verbs.ConnectOptions{Timeout: 10, RetryCount: 2} // 4.2 ms
	b.ok(b.qp.Connect(b.ep, a.ep, nil))
	a.ok(a.qp.Connect(a.ep, b.ep, &verbs.ConnectOptions{Timeout: 20}))
	a.port.lose.Store(true)
	a.write(b, 8)
	a.asleep()
	a.port.lose.Store(false)
	if wc := a.wait(); wc.Status != verbs.StatusSuccess {
		t.Errorf("%v", wc.Status)
	}
	for _, s := range []*side{a, b} {
		s.ok(s.qp.Modify(verbs.QPAttr{State: verbs.StateReset}, verbs.MaskState))
	}
	a.ok(a.qp.Connect(a.ep, b.ep, &short))
	a.port.lose.Store(true)
	start := time.Now()
	a.write(b, 8)
	if wc := a.wait(); wc.Status != verbs.StatusRetryExceeded {
		t.Errorf("%v", wc.Status)
	}
	if d, least := time.Since(start), 3*4194304*time.Nanosecond; d < least {
		t.Errorf("gave up after %v, before three timeouts of %v", d, least/3)
	}
}

// TestCloseWhilePolling closes a device that several goroutines poll, post to and wait for.
func TestCloseWhilePolling(t *testing.T) {
	a, b := newPair(t)
	done := make(chan error)
	go func() {
		for {
			if err := a.qp.PostSend(&verbs.SendWR{Op: verbs.OpWrite, SGL: []verbs.SGE{a.mr.SGE(0, 64)}, Remote: b.mr.Remote()}); !errors.Is(err, verbs.ErrQueueFull) && err != nil {
				done <- err
				return
			}
			a.cq.Poll(make([]verbs.WC, 4))
		}
	}()
	go func() {
		_, err := a.cq.Wait(t.Context(), make([]verbs.WC, 1))
		done <- err
	}()
	go func() { done <- a.mr.WaitFor(t.Context(), func([]byte) bool { return false }) }()
	go func() {
		_, err := a.dev.Event(t.Context())
		done <- err
	}()
	time.Sleep(5 * time.Millisecond)
	a.ok(a.dev.Close())
	for range 4 {
		select {
		case err := <-done:
			if !errors.Is(err, verbs.ErrClosed) {
				t.Errorf("ended with %v", err)
			}
		case <-time.After(2 * time.Minute):
			t.Fatal("still waiting")
		}
	}
	if !a.port.isClosed() {
		t.Error("the port is open")
	}
}

// TestWaitForSleeps holds that who waits for a region sleeps, and is woken by what a peer
// does to that region.
func TestWaitForSleeps(t *testing.T) {
	a, b := newPair(t)
	var looked atomic.Int32
	done := make(chan error, 1)
	go func() {
		done <- b.mr.WaitFor(context.Background(), func(p []byte) bool { looked.Add(1); return p[0] != 0 })
	}()
	b.eventually(func() bool {
		before := looked.Load()
		time.Sleep(50 * time.Millisecond)
		return looked.Load() == before && before > 0
	}, "it sleeps")
	a.mr.Do(func(p []byte) { p[0] = 1 })
	a.write(b, 1)
	a.wait()
	a.ok(<-done)
}
