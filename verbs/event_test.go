// SPDX-License-Identifier: Apache-2.0

package verbs

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"weak"
)

func TestEventQueueOrder(t *testing.T) {
	q := newEventQueue()
	cq, qp := &CQ{}, &QP{}
	q.put(queuedEvent{typ: EventCQError, cq: weak.Make(cq)})
	q.put(queuedEvent{typ: EventQPFatal, qp: weak.Make(qp)})
	q.put(queuedEvent{typ: EventPortActive, port: 1})
	for _, want := range []Event{{Type: EventCQError, CQ: cq}, {Type: EventQPFatal, QP: qp},
		{Type: EventPortActive, Port: 1}} {
		if got, err := q.get(t.Context()); err != nil || got != want {
			t.Errorf("got %+v, %v, want %+v", got, err, want)
		}
	}
}

// TestEventQueueBound holds that newer events push out the oldest.
func TestEventQueueBound(t *testing.T) {
	q := newEventQueue()
	for i := range maxEvents + 5 {
		q.put(queuedEvent{typ: EventPortError, port: i})
	}
	for i := range maxEvents {
		if got, err := q.get(t.Context()); err != nil || got.Port != i+5 {
			t.Fatalf("event %d is %+v, %v", i, got, err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := q.get(ctx); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// TestEventQueueWaiters holds that several waiters share the events out, each to one of
// them, and that all of them see the end.
func TestEventQueueWaiters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n = 5
		q := newEventQueue()
		got := make(chan Event, n)
		var ended atomic.Int32
		for range n {
			go func() {
				for {
					e, err := q.get(t.Context())
					if err != nil {
						if !errors.Is(err, ErrClosed) {
							t.Error(err)
						}
						ended.Add(1)
						return
					}
					got <- e
				}
			}()
		}
		synctest.Wait()
		for i := range n {
			q.put(queuedEvent{typ: EventPortError, port: i})
		}
		seen := map[int]bool{}
		for range n {
			seen[(<-got).Port] = true
		}
		if len(seen) != n {
			t.Errorf("saw %v", seen)
		}
		q.close()
		synctest.Wait()
		if ended.Load() != n {
			t.Errorf("%d of %d waiters saw the end", ended.Load(), n)
		}
	})
}

// TestEventQueueClose holds that events which arrived before the end can still be fetched.
func TestEventQueueClose(t *testing.T) {
	q := newEventQueue()
	q.put(queuedEvent{typ: EventDeviceFatal})
	q.close()
	if e, err := q.get(t.Context()); err != nil || e.Type != EventDeviceFatal {
		t.Error(e, err)
	}
	for range 2 {
		if _, err := q.get(t.Context()); !errors.Is(err, ErrClosed) {
			t.Error(err)
		}
	}
}
