// SPDX-License-Identifier: Apache-2.0

package queue_test

import (
	"errors"
	"sync"
	"testing"

	"github.com/ramjet-rdma/ramjet/internal/base/queue"
	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/verbs/driver"
)

// events counts the events of a completion queue.
type events struct{ completions, errors int }

func newCQ(capacity int) (*queue.CQ, *events) {
	e := &events{}
	return queue.NewCQ(capacity, false, driver.CQEvents{Completion: func() { e.completions++ },
		Error: func() { e.errors++ }}), e
}

func push(c *queue.CQ, id uint64) bool { return c.Push(&verbs.WC{ID: id}, false, queue.Frees{}) }

func poll(c *queue.CQ, n int) (ids []uint64) {
	wcs := make([]verbs.WC, n)
	for _, wc := range wcs[:c.Poll(wcs)] {
		ids = append(ids, wc.ID)
	}
	return ids
}

func TestCQOrder(t *testing.T) {
	c, _ := newCQ(100)
	next := uint64(0)
	for i := range uint64(100) {
		if !push(c, i) {
			t.Fatalf("completion %d refused", i)
		}
		if i%3 == 2 { // the ring turns while it grows
			for _, id := range poll(c, 2) {
				if id != next {
					t.Fatalf("completion %d, want %d", id, next)
				}
				next++
			}
		}
	}
	for _, id := range poll(c, 200) {
		if id != next {
			t.Fatalf("completion %d, want %d", id, next)
		}
		next++
	}
	if next != 100 || len(poll(c, 1)) != 0 {
		t.Errorf("%d completions", next)
	}
}

// A completion that does not fit is lost, and no other is taken after it (IBTA 10.2.6.3).
func TestCQOverflow(t *testing.T) {
	c, e := newCQ(2)
	if !push(c, 1) || !push(c, 2) || c.Err() != nil {
		t.Fatal("two fit")
	}
	if push(c, 3) || !errors.Is(c.Err(), verbs.ErrOverflow) || e.errors != 1 {
		t.Errorf("overflow: %v, %d events", c.Err(), e.errors)
	}
	if ids := poll(c, 9); len(ids) != 2 {
		t.Errorf("%d completions are left", len(ids))
	}
	if push(c, 4) || e.errors != 1 {
		t.Error("a queue in error takes completions, or reports again")
	}
}

// One event for each time that one was asked for, at the next completion of the kind
// (IBTA 11.4.2.2).
func TestCQNotify(t *testing.T) {
	c, e := newCQ(100)
	ok, bad := &verbs.WC{}, &verbs.WC{Status: verbs.StatusWRFlushError}
	want := func(n int, what string) {
		t.Helper()
		if e.completions != n {
			t.Errorf("%s: %d events, want %d", what, e.completions, n)
		}
	}
	c.Push(ok, true, queue.Frees{})
	want(0, "not asked")
	c.ReqNotify(false)
	want(0, "what waits already raises none")
	c.Push(ok, false, queue.Frees{})
	c.Push(ok, false, queue.Frees{})
	want(1, "any")
	c.ReqNotify(true)
	c.Push(ok, false, queue.Frees{})
	want(1, "solicited, and none is")
	c.Push(ok, true, queue.Frees{})
	c.Push(ok, true, queue.Frees{})
	want(2, "solicited")
	c.ReqNotify(true)
	c.Push(bad, false, queue.Frees{})
	want(3, "an error counts as solicited")
	c.ReqNotify(false)
	c.ReqNotify(true) // asking for less takes nothing back
	c.Push(ok, false, queue.Frees{})
	want(4, "any, then solicited")
	c.ReqNotify(true)
	c.ReqNotify(false)
	c.Push(ok, false, queue.Frees{})
	want(5, "solicited, then any")
}

func TestCQResize(t *testing.T) {
	c, e := newCQ(2)
	push(c, 1)
	push(c, 2)
	if err := c.Resize(1); !errors.Is(err, verbs.ErrInvalid) || c.Capacity() != 2 {
		t.Errorf("below what waits: %v, capacity %d", err, c.Capacity())
	}
	if err := c.Resize(3); err != nil || !push(c, 3) || c.Capacity() != 3 {
		t.Errorf("%v, capacity %d", err, c.Capacity())
	}
	if push(c, 4) || e.errors != 1 {
		t.Error("the new capacity is not kept")
	}
}

func TestCQForget(t *testing.T) {
	c, _ := newCQ(100)
	for i := range uint64(20) {
		c.Push(&verbs.WC{ID: i, QPN: verbs.QPN(i % 3)}, false, queue.Frees{})
	}
	poll(c, 4)
	c.Forget(1)
	want := uint64(4)
	for _, id := range poll(c, 100) {
		if want%3 == 1 {
			want++
		}
		if id != want {
			t.Fatalf("completion %d, want %d", id, want)
		}
		want++
	}
	c.Forget(2)
	if len(poll(c, 1)) != 0 {
		t.Error("something is left")
	}
}

// Completions come from the device while programs poll, resize and ask.
func TestCQConcurrent(t *testing.T) {
	c := queue.NewCQ(1<<20, false, driver.CQEvents{Completion: func() {}, Error: func() {}})
	const n = 10000
	var wg sync.WaitGroup
	var device sync.Mutex
	wg.Go(func() {
		for i := range uint64(n) {
			device.Lock()
			push(c, i)
			device.Unlock()
		}
	})
	wg.Go(func() {
		for i := range 100 {
			c.ReqNotify(i%2 == 0)
			device.Lock()
			c.Resize(1<<20 + i)
			c.Forget(77)
			device.Unlock()
			c.Capacity()
			c.Err()
		}
	})
	got := 0
	for got < n {
		got += len(poll(c, 16))
	}
	wg.Wait()
}

// Ring against a slice.
func TestRing(t *testing.T) {
	var r queue.Ring[int]
	var model []int
	for i := range 10000 {
		switch k := i * 7919 % 11; {
		case k < 6:
			*r.PushBack() = i
			model = append(model, i)
		case k < 9 && len(model) > 0:
			r.PopFront()
			model = model[1:]
		case k == 9 && len(model) > 0:
			r.PopBack()
			model = model[:len(model)-1]
		case k == 10 && i%97 == 0:
			r.Clear()
			model = nil
		}
		if r.Len() != len(model) {
			t.Fatalf("step %d: %d elements, want %d", i, r.Len(), len(model))
		}
		for j, v := range model {
			if *r.At(j) != v {
				t.Fatalf("step %d: element %d is %d, want %d", i, j, *r.At(j), v)
			}
		}
		if len(model) > 0 && *r.Front() != model[0] {
			t.Fatalf("step %d: front", i)
		}
	}
}
