// SPDX-License-Identifier: Apache-2.0

package softdev_test

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/ramjet-rdma/ramjet/internal/testkit/memhub"
	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/verbs/driver"
)

// ownsPoll reports whether a program that waits moves the data.
func (s *side) ownsPoll() bool {
	l := &s.soft.Lane
	l.Mu.Lock()
	defer l.Mu.Unlock()
	return l.OwnsPoll()
}

// A program that waits leaves the data to one that polls: both would want the lock for each poll.
func TestPollOwnerLeaves(t *testing.T) {
	var h memhub.Hub
	s := newSide(t, &h)
	left := make(chan struct{})
	go func() {
		s.soft.Sleep(func() bool { return false }, nil, verbs.DefaultSpin)
		close(left)
	}()
	s.Eventually(s.ownsPoll, "it moves the data")
	s.Eventually(func() bool {
		s.CQ.Poll(make([]verbs.WC, 1))
		s.soft.WakeSleeper() // as what arrives does
		select {
		case <-left:
			return true
		default:
			return false
		}
	}, "it leaves the data to the program that polls")
}

// A goroutine that waits at a completion channel moves data only while there is a queue whose event the program has
// asked for.
func TestChannelOwnsPoll(t *testing.T) {
	var h memhub.Hub
	s := newSide(t, &h)
	channel, err := s.Dev.CreateCompChannel()
	s.OK(err)
	cqs := make([]*verbs.CQ, 2)
	for i := range cqs {
		cqs[i], err = s.Dev.CreateCQ(16, &verbs.CQOptions{Channel: channel})
		s.OK(err)
	}
	ended := make(chan error)
	go func() {
		_, err := channel.Wait(t.Context())
		ended <- err
	}()
	for range 20 {
		if time.Sleep(time.Millisecond); s.ownsPoll() {
			t.Fatal("it moves data without an event to wait for")
		}
	}
	for _, cq := range cqs {
		s.OK(cq.ReqNotify(false))
		s.Eventually(s.ownsPoll, "it moves the data")
	}
	for i, cq := range cqs {
		s.OK(cq.Close())
		s.Eventually(func() bool { return s.ownsPoll() == (i == 0) },
			"it moves data while there is an event to wait for")
	}
	s.OK(channel.Close())
	if err := <-ended; err == nil {
		t.Error("no error of a channel that is closed")
	}
}

// A wake-up of the device's goroutine is not lost when a program begins to wait at the same moment, and moves the data
// in its place: a wake-up is there once only.
func TestPollOwnerLooksFirst(t *testing.T) {
	var h memhub.Hub
	s := newSide(t, &h)
	var looked, missed atomic.Int64
	atWait := func() {
		if n := int64(s.Port.Receives.Load()); looked.Swap(n) == n {
			missed.Add(1)
		}
	}
	s.Port.AtWait.Store(&atWait)
	waiting := func() bool {
		l := &s.soft.Lane
		l.Mu.Lock()
		defer l.Mu.Unlock()
		return l.Waiting()
	}
	for range 20 {
		s.soft.WakeSleeper()
		s.Eventually(func() bool { return waiting() && looked.Load() > 0 }, "its goroutine waits")
		var done atomic.Bool
		left := make(chan struct{})
		go func() {
			s.soft.Sleep(done.Load, nil, 0)
			close(left)
		}()
		s.Eventually(func() bool { return s.ownsPoll() && waiting() }, "it moves the data")
		done.Store(true)
		s.soft.WakeSleeper()
		<-left
	}
	if n := missed.Load(); n > 0 {
		t.Errorf("%d waits began before it was looked for what had ended the one before", n)
	}
}

// Goroutines that wait for a queue need another one to move data when the poll's owner goes, unless their queue is
// deferrable.
func TestDeferrable(t *testing.T) {
	var h memhub.Hub
	s := newSide(t, &h)
	for _, deferrable := range []bool{false, true} {
		cq, err := s.Dev.CreateCQ(16, &verbs.CQOptions{Deferrable: deferrable, Notify: func() {}})
		s.OK(err)
		s.OK(cq.ReqNotify(false))
		s.soft.Lane.Mu.Lock()
		if wait := s.soft.OthersWait(0); wait == deferrable {
			t.Errorf("deferrable: %t, others wait: %t", deferrable, wait)
		}
		s.soft.Lane.Mu.Unlock()
		s.OK(cq.Close())
	}
}

// Who leaves the poll with an event of one of its queues comes back for the others: nobody else needs to move their
// data at once. A queue of somebody else is another matter.
func TestOwnQueues(t *testing.T) {
	var h memhub.Hub
	s := newSide(t, &h)
	channel, err := s.Dev.CreateCompChannel()
	s.OK(err)
	armed := driver.ForwardEvents(channel, func(*verbs.CQ) {})
	newQueue := func(o *verbs.CQOptions) {
		t.Helper()
		cq, err := s.Dev.CreateCQ(16, o)
		s.OK(err)
		s.OK(cq.ReqNotify(false))
	}
	othersWait := func() bool {
		s.soft.Lane.Mu.Lock()
		defer s.soft.Lane.Mu.Unlock()
		return s.soft.OthersWait(armed())
	}
	for n := range 2 {
		newQueue(&verbs.CQOptions{Channel: channel})
		if armed() != n+1 || othersWait() {
			t.Errorf("%d queues armed, want %d; others wait: %t", armed(), n+1, othersWait())
		}
	}
	if newQueue(&verbs.CQOptions{Notify: func() {}}); !othersWait() {
		t.Error("nobody waits for the queue of another one")
	}
}
