// SPDX-License-Identifier: Apache-2.0

package softdev

import (
	"container/heap"

	"github.com/ramjet-rdma/ramjet/internal/ibta"
)

// alarm is something to do at a time.
type alarm struct {
	at    ibta.Time
	index int // within the heap, from 1; 0: it is not set
	do    func()
}

// alarms is a heap of them.
type alarms []*alarm

// set makes a go off at a time, whenever it was to before.
func (h *alarms) set(a *alarm, at ibta.Time) {
	a.at = at
	if a.index == 0 {
		heap.Push(h, a)
	} else {
		heap.Fix(h, a.index-1)
	}
}

func (h *alarms) stop(a *alarm) {
	if a.index > 0 {
		heap.Remove(h, a.index-1)
	}
}

// next returns when the first is due; zero: there is none.
func (h alarms) next() ibta.Time {
	if len(h) == 0 {
		return 0
	}
	return h[0].at
}

// ring does what is due.
func (h *alarms) ring(now ibta.Time) {
	for len(*h) > 0 && (*h)[0].at <= now {
		heap.Pop(h).(*alarm).do()
	}
}

func (h alarms) Len() int           { return len(h) }
func (h alarms) Less(i, j int) bool { return h[i].at < h[j].at }
func (h alarms) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i+1, j+1
}
func (h *alarms) Push(x any) {
	a := x.(*alarm)
	*h = append(*h, a)
	a.index = len(*h)
}
func (h *alarms) Pop() any {
	old := *h
	n := len(old) - 1
	a := old[n]
	old[n] = nil
	*h = old[:n]
	a.index = 0
	return a
}
