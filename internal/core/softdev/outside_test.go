// SPDX-License-Identifier: Apache-2.0

package softdev_test

import (
	"testing"

	"github.com/ramjet-rdma/ramjet/internal/testkit/memhub"
	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/verbs/driver"
)

// pollPort is a port at which threads can sleep outside of Go. Nothing wakes them but the test.
type pollPort struct {
	*memhub.Port
	begun, ended int // with the device's lock
}

func (p *pollPort) Pollable() bool { return true }

func (p *pollPort) BeginWait(bool, *driver.PollSet) bool {
	p.begun++
	return true
}

func (p *pollPort) EndWait(bool) { p.ended++ }

// newPollers makes a pair, and has threads of one side sleep outside of Go.
func newPollers(t *testing.T) (a, b *side, port *pollPort) {
	a, b = newPair(t)
	port = &pollPort{Port: a.Port}
	a.soft.Lane.Mu.Lock()
	defer a.soft.Lane.Mu.Unlock()
	a.soft.Lane.PollAt(port)
	return a, b, port
}

// polled reports whether a completion was there to poll.
func (s *side) polled() bool { return s.CQ.Poll(make([]verbs.WC, 1)) > 0 }

func never() bool { return false }

// A thread that sleeps outside of Go owns the poll from its first call to the one that finds its completion, or leaves.
func TestPollSleep(t *testing.T) {
	a, b, port := newPollers(t)
	done := false
	w, other := driver.PollWait{Awake: func() bool { return done }}, driver.PollWait{Awake: never}
	for range 3 {
		if !a.soft.PollSleep(&w, false) || !a.ownsPoll() {
			t.Fatal("it does not sleep as the owner of the poll")
		}
		if a.soft.PollSleep(&other, false) {
			t.Fatal("two threads own the poll")
		}
		b.Write(&a.Side, 8)
		b.Eventually(func() bool { return a.soft.PollSleep(&w, false) && b.polled() },
			"the thread that woke moves the data")
		done = true
		if a.soft.PollSleep(&w, false) || a.ownsPoll() {
			t.Fatal("what it waits for is there, and it owns the poll")
		}
		done = false
		if !a.soft.PollSleep(&w, false) {
			t.Fatal("it does not sleep again")
		}
		if a.soft.LeavePoll(&w); a.ownsPoll() {
			t.Fatal("it has left, and owns the poll")
		}
	}
	if port.begun != port.ended {
		t.Errorf("%d waits began, and %d ended", port.begun, port.ended)
	}
	if a.OK(a.Dev.Close()); !a.Port.Freed.Load() {
		t.Error("no thread sleeps, and the closed port is not freed")
	}
}

// A thread that never comes back from its sleep stops nobody: the device's goroutine moves the data. It may come back
// then.
func TestPollSleepStray(t *testing.T) {
	a, b, _ := newPollers(t)
	w := driver.PollWait{Awake: never}
	if !a.soft.PollSleep(&w, false) {
		t.Fatal("it does not sleep")
	}
	b.Write(&a.Side, 8)
	b.Eventually(b.polled, "the peer's WRITE completes")
	stray := w.Ticket
	if a.ownsPoll() {
		t.Error("the thread still owns the poll")
	}
	if !a.soft.PollSleep(&w, false) || w.Ticket == stray {
		t.Error("it comes back, and does not sleep anew")
	}
	a.soft.LeavePoll(&driver.PollWait{Awake: never, Ticket: stray})
	if !a.ownsPoll() {
		t.Error("an old wait ends a new one")
	}
	a.soft.LeavePoll(&w)
	if a.OK(a.Dev.Close()); a.Port.Freed.Load() {
		t.Error("the port is freed, and a thread may still sleep there")
	}
}

// A device is closed while a thread sleeps, which finds that later.
func TestPollSleepClosed(t *testing.T) {
	a, _, port := newPollers(t)
	w := driver.PollWait{Awake: never}
	if !a.soft.PollSleep(&w, false) {
		t.Fatal("it does not sleep")
	}
	a.OK(a.Dev.Close())
	if port.begun != port.ended {
		t.Errorf("%d waits began, and %d ended", port.begun, port.ended)
	}
	if a.Port.Freed.Load() {
		t.Error("the port is freed, and the thread still sleeps there")
	}
	if a.soft.PollSleep(&w, true) {
		t.Error("the device is closed, and the thread sleeps")
	}
	a.soft.LeavePoll(&w)
}
