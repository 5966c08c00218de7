// SPDX-License-Identifier: Apache-2.0

package softdev

import (
	"container/heap"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/ramjet-rdma/ramjet/internal/ibta"
)

// TestTimers puts many queue pairs into the heap, takes some out, and has the others come
// due in order.
func TestTimers(t *testing.T) {
	var s schedule
	r := rand.New(rand.NewPCG(1, 2))
	var want []ibta.Time
	var qps []*qp
	for range 500 {
		q := &qp{due: ibta.Time(1 + r.IntN(1000))}
		heap.Push(&s.timers, q)
		qps = append(qps, q)
	}
	for i, q := range qps {
		if s.timers[q.index] != q {
			t.Fatalf("queue pair %d is not at its place in the heap", i)
		}
		if i%3 == 0 {
			s.unschedule(q)
			if q.due != 0 {
				t.Fatal("unscheduled, and still due")
			}
			continue
		}
		want = append(want, q.due)
	}
	slices.Sort(want)
	if s.nextDue() != want[0] || s.popDue(want[0]-1) != nil {
		t.Errorf("next due at %d, want %d", s.nextDue(), want[0])
	}
	for i, due := range want {
		if next := s.nextDue(); next != due {
			t.Fatalf("timer %d is due at %d, want %d", i, next, due)
		}
		if q := s.popDue(due); q == nil || q.due != 0 {
			t.Fatalf("timer %d: %+v", i, q)
		}
	}
	if s.nextDue() != 0 || s.popDue(1<<60) != nil {
		t.Error("a timer is left")
	}
}

// TestReady holds that ready queue pairs take turns, each once.
func TestReady(t *testing.T) {
	var s schedule
	qps := []*qp{{}, {}, {}, {}}
	for range 3 {
		for _, q := range qps {
			s.addReady(q)
		}
	}
	s.unschedule(qps[1])
	s.holdAck(qps[2])
	s.holdAck(qps[2])
	for _, want := range []*qp{qps[0], qps[2], qps[3], nil} {
		if got := s.nextReady(); got != want {
			t.Fatalf("got %p, want %p", got, want)
		}
	}
	s.holdAck(qps[3])
	s.unschedule(qps[3])
	s.releaseAcks()
	if got := s.nextReady(); got != qps[2] || s.nextReady() != nil {
		t.Errorf("released %p, want %p alone", got, qps[2])
	}
}
