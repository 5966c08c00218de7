// SPDX-License-Identifier: Apache-2.0

package softdev

import (
	"container/heap"

	"github.com/ramjet-rdma/ramjet/internal/base/clock"
)

// Timer is something to do at a given time.
type Timer struct {
	At    clock.Time
	index int // in the heap, from 1; 0: not set
	Fire  func()
}

// IsSet reports whether the timer is going to fire.
func (t *Timer) IsSet() bool { return t.index > 0 }

// timers is a heap of timers.
type timers []*Timer

// Set makes t fire at a time, whatever it was set to before.
func (h *timers) Set(t *Timer, at clock.Time) {
	t.At = at
	if t.index == 0 {
		heap.Push(h, t)
	} else {
		heap.Fix(h, t.index-1)
	}
}

// SetBy makes t fire no later than a time; zero: no change.
func (h *timers) SetBy(t *Timer, at clock.Time) {
	if at != 0 && (t.index == 0 || at < t.At) {
		h.Set(t, at)
	}
}

func (h *timers) Stop(t *Timer) {
	if t.index > 0 {
		heap.Remove(h, t.index-1)
	}
}

// next returns when the first timer is due; zero: there is none.
func (h timers) next() clock.Time {
	if len(h) == 0 {
		return 0
	}
	return h[0].At
}

// run runs the timers that are due, as many as a pass may. It reports whether there were any.
func (h *timers) run(now clock.Time) (fired bool) {
	for range budgetTimers {
		if len(*h) == 0 || (*h)[0].At > now {
			return fired
		}
		fired = true
		heap.Pop(h).(*Timer).Fire()
	}
	return fired
}

func (h timers) Len() int           { return len(h) }
func (h timers) Less(i, j int) bool { return h[i].At < h[j].At }
func (h timers) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i+1, j+1
}
func (h *timers) Push(x any) {
	t := x.(*Timer)
	*h = append(*h, t)
	t.index = len(*h)
}
func (h *timers) Pop() any {
	old := *h
	n := len(old) - 1
	t := old[n]
	old[n] = nil
	*h = old[:n]
	t.index = 0
	return t
}
