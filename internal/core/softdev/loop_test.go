// SPDX-License-Identifier: Apache-2.0

package softdev_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ramjet-rdma/ramjet/internal/testkit/memhub"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// TestIdle holds that an idle device sleeps: the port is asked nothing while time passes.
func TestIdle(t *testing.T) {
	a, b := newPair(t)
	a.Write(&b.Side, 8)
	a.Wait()
	a.Eventually(func() bool { // its first timer may come once more
		a.Asleep()
		receives, waits := a.Port.Receives.Load(), a.Port.Waits.Load()
		time.Sleep(100 * time.Millisecond)
		return receives == a.Port.Receives.Load() && waits == a.Port.Waits.Load()
	}, "the port has rest")
}

// TestWaitFails holds that a device goes on while the system lacks the memory for waiting.
func TestWaitFails(t *testing.T) {
	a, b := newPair(t)
	b.Port.Broken.Store(true)
	waits := b.Port.Waits.Load()
	b.Port.Wake()
	b.Eventually(func() bool { return b.Port.Waits.Load() > waits }, "it wants to wait")
	a.Write(&b.Side, 8)
	if wc := a.Wait(); wc.Status != verbs.StatusSuccess {
		t.Error(wc.Status)
	}
}

// TestGracePeriod holds that a program which polls has the port for itself, that the goroutine
// takes over once it stops, and at once when it says that it goes to sleep.
func TestGracePeriod(t *testing.T) {
	a, b := newPair(t)
	poll := func() { a.CQ.Poll(make([]verbs.WC, 1)) }
	programPolls := func() bool {
		a.soft.Lane.Mu.Lock()
		defer a.soft.Lane.Mu.Unlock()
		return a.soft.Lane.ProgramPolls()
	}
	a.Eventually(func() bool {
		a.Port.Wake() // it looks around, and sees the polls
		for range 1000 {
			poll()
		}
		return programPolls()
	}, "left to the program that polls")
	if err := a.CQ.ReqNotify(false); err != nil {
		t.Fatal(err)
	}
	if programPolls() {
		t.Error("left to a program that goes to sleep")
	}
	a.Asleep()
	for range 1000 {
		poll()
	}
	b.Write(&a.Side, 5000) // nobody polls at a any more
	if wc := b.Wait(); wc.Status != verbs.StatusSuccess {
		t.Error(wc.Status)
	}
}

// TestPortFull holds that packets that a port does not take are sent later, in order and once.
func TestPortFull(t *testing.T) {
	a, b := newPair(t)
	a.MR.Do(func(p []byte) {
		for i := range p {
			p[i] = byte(i * 7)
		}
	})
	a.Port.Full.Store(true)
	for range 5 {
		a.Write(&b.Side, 1<<20)
	}
	a.Asleep() // until the port takes more
	a.Port.In.Change(func() { a.Port.Full.Store(false) })
	for range 5 {
		if wc := a.Wait(); wc.Status != verbs.StatusSuccess {
			t.Fatal(wc.Status)
		}
	}
	b.MR.Do(func(p []byte) {
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
	var h memhub.Hub
	a, b := newSide(t, &h), newSide(t, &h)
	short := verbs.ConnectOptions{Timeout: 10, RetryCount: 2} // 4.2 ms
	b.OK(b.QP.Connect(b.EP, a.EP, nil))
	a.OK(a.QP.Connect(a.EP, b.EP, &verbs.ConnectOptions{Timeout: 20}))
	a.Port.Lose.Store(true)
	a.Write(&b.Side, 8)
	a.Asleep()
	a.Port.Lose.Store(false)
	if wc := a.Wait(); wc.Status != verbs.StatusSuccess {
		t.Errorf("%v", wc.Status)
	}
	for _, s := range []*side{a, b} {
		s.OK(s.QP.Modify(verbs.QPAttr{State: verbs.StateReset}, verbs.MaskState))
	}
	a.OK(a.QP.Connect(a.EP, b.EP, &short))
	a.Port.Lose.Store(true)
	start := time.Now()
	a.Write(&b.Side, 8)
	if wc := a.Wait(); wc.Status != verbs.StatusRetryExceeded {
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
			if err := a.QP.PostSend(&verbs.SendWR{Op: verbs.OpWrite, SGL: []verbs.SGE{a.MR.SGE(0, 64)},
				Remote: b.MR.Remote()}); !errors.Is(err, verbs.ErrQueueFull) && err != nil {
				done <- err
				return
			}
			a.CQ.Poll(make([]verbs.WC, 4))
		}
	}()
	go func() {
		_, err := a.CQ.Wait(t.Context(), make([]verbs.WC, 1))
		done <- err
	}()
	go func() { done <- a.MR.WaitFor(t.Context(), func([]byte) bool { return false }) }()
	go func() {
		_, err := a.Dev.Event(t.Context())
		done <- err
	}()
	time.Sleep(5 * time.Millisecond)
	a.OK(a.Dev.Close())
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
	if !a.Port.IsClosed() {
		t.Error("the port is open")
	}
}

// TestWaitForSleeps holds that a goroutine that waits for a region sleeps, and is woken by a peer's access to that
// region.
func TestWaitForSleeps(t *testing.T) {
	a, b := newPair(t)
	var looked atomic.Int32
	done := make(chan error, 1)
	go func() {
		done <- b.MR.WaitFor(context.Background(), func(p []byte) bool { looked.Add(1); return p[0] != 0 })
	}()
	b.Eventually(func() bool {
		before := looked.Load()
		time.Sleep(50 * time.Millisecond)
		return looked.Load() == before && before > 0
	}, "it sleeps")
	a.MR.Do(func(p []byte) { p[0] = 1 })
	a.Write(&b.Side, 1)
	a.Wait()
	a.OK(<-done)
}
