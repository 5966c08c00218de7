// SPDX-License-Identifier: Apache-2.0

package queue_test

import (
	"errors"
	"testing"

	"github.com/ramjet-rdma/ramjet/internal/base/queue"
	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/verbs/driver"
)

// strictPair makes a pair of a device that acts as a NIC, in RTS, with a completion queue of its own. It delivers
// completions, as a device does.
type strictPair struct {
	*fixture
	cq   *queue.CQ
	lost int
}

func newStrictPair(t *testing.T, cqe int, change ...func(*queue.Config)) *strictPair {
	s := &strictPair{cq: queue.NewCQ(cqe, true, driver.CQEvents{Completion: func() {}, Error: func() {}})}
	change = append(change, func(c *queue.Config) { c.SendCQ, c.RecvCQ = s.cq, s.cq })
	s.fixture = newPair(t, change...)
	s.dev.NIC = true
	s.Pair = queue.NewPair(&s.dev, &s.out, s.Config)
	s.SetState(verbs.StateRTS)
	return s
}

// post posts a send and returns its record; nil: the queue is full.
func (s *strictPair) post(id uint64, flags verbs.SendFlags) *queue.SendWQE {
	s.Helper()
	wr := verbs.SendWR{ID: id, Op: verbs.OpSend, Flags: flags}
	switch n, err := s.CheckSends([]verbs.SendWR{wr}, 0, false, func(*verbs.SendWR) error { return nil }); {
	case errors.Is(err, verbs.ErrQueueFull):
		return nil
	case n != 1 || err != nil:
		s.Fatal(n, err)
	}
	w := &queue.SendWQE{}
	s.SetSend(w, &wr)
	return w
}

func (s *strictPair) deliver() {
	for i := range s.out.Completions {
		c := &s.out.Completions[i]
		if !c.CQ.Push(&c.WC, c.Solicited, c.Frees) {
			s.lost++
		}
	}
	s.out.Reset()
}

// room returns how many sends the queue takes now.
func (s *strictPair) room() (n int) {
	s.Helper()
	for s.post(99, 0) != nil {
		n++
	}
	return n
}

// A place is free once the completion of its work request, or of a later one, has been polled.
func TestSendSlots(t *testing.T) {
	s := newStrictPair(t, 100)
	for round := range 5 {
		var all [4]*queue.SendWQE
		for i := range all {
			flags := verbs.SendFlags(0)
			if i%2 == 1 {
				flags = verbs.Signaled
			}
			all[i] = s.post(uint64(i), flags)
		}
		for i, w := range all {
			if s.post(99, 0) != nil {
				t.Fatalf("round %d: room after %d have completed", round, i)
			}
			s.CompleteSend(w, verbs.StatusSuccess)
			s.deliver()
		}
		if got := poll(s.cq, 1); len(got) != 1 || got[0] != 1 {
			t.Fatalf("polled %v", got)
		}
		if a, b := s.post(98, verbs.Signaled), s.post(98, verbs.Signaled); a == nil || b == nil ||
			s.post(99, 0) != nil {
			t.Fatal("not two places are free after two of four")
		} else {
			poll(s.cq, 1)
			s.CompleteSend(a, verbs.StatusWRFlushError)
			s.CompleteSend(b, verbs.StatusWRFlushError)
			s.deliver()
		}
		if got := poll(s.cq, 9); len(got) != 2 {
			t.Fatalf("polled %v", got)
		}
	}
	if n := s.room(); n != 4 {
		t.Errorf("room for %d of 4", n)
	}
}

// Work requests that a queue forgets free their places, also of a receive queue that other queue pairs share, and RESET
// frees all.
func TestForgottenSlots(t *testing.T) {
	srq := &queue.RecvQueue{PD: 1, MaxWR: 4, MaxSGE: 1, Shared: true}
	s := newStrictPair(t, 100, func(c *queue.Config) { c.Recv = srq })
	srq.Slots = s.dev.NewSlots()
	if n, err := srq.Post(make([]verbs.RecvWR, 5)); n != 4 || !errors.Is(err, verbs.ErrQueueFull) {
		t.Fatal(n, err)
	}
	for range 2 {
		s.TakeReceive(srq)
		s.CompleteReceive(verbs.StatusSuccess)
	}
	s.TakeReceive(srq) // the next message has begun
	s.CompleteSend(s.post(1, verbs.Signaled), verbs.StatusSuccess)
	s.deliver()
	if held := srq.Slots.Taken(); held != 4 {
		t.Fatalf("%d places are taken, want 4", held)
	}
	s.Reset()
	if held := srq.Slots.Taken(); held != 1 || s.cq.Len() != 0 {
		t.Errorf("%d places are taken, and %d completions left; want 1, 0", held, s.cq.Len())
	}
	s.SetState(verbs.StateRTS)
	if n := s.room(); n != 4 {
		t.Errorf("room for %d of 4", n)
	}
}

// The completions of a strict queue that overflows cannot be polled, and free nothing.
func TestStrictOverflow(t *testing.T) {
	s := newStrictPair(t, 2)
	for i := range uint64(3) {
		s.CompleteSend(s.post(i, verbs.Signaled), verbs.StatusSuccess)
	}
	s.deliver()
	if got := poll(s.cq, 9); len(got) != 0 || s.lost != 1 || !errors.Is(s.cq.Err(), verbs.ErrOverflow) {
		t.Errorf("polled %v, %d lost, error %v", got, s.lost, s.cq.Err())
	}
	last := s.post(9, 0)
	if last == nil || s.post(10, 0) != nil {
		t.Error("not the one place is free that was never taken")
	}
	s.CompleteSend(last, verbs.StatusWRFlushError)
	if s.deliver(); s.lost != 2 {
		t.Errorf("%d completions lost, want 2", s.lost)
	}
}
