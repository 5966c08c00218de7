// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"time"

	"github.com/ramjet-rdma/ramjet/internal/base/clock"
)

// Time is virtual time in picoseconds: a byte at 400 Gb/s takes 20 of them.
type Time int64

// Units of time.
const (
	Nanosecond  Time = 1000
	Microsecond      = 1000 * Nanosecond
	Millisecond      = 1000 * Microsecond
	Second           = 1000 * Millisecond
)

// Duration returns t rounded down to nanoseconds.
func (t Time) Duration() time.Duration { return time.Duration(t / Nanosecond) }

// Seconds returns t in seconds.
func (t Time) Seconds() float64 { return float64(t) / float64(Second) }

// FromDuration returns a duration as virtual time.
func FromDuration(d time.Duration) Time { return Time(d) * Nanosecond }

// epoch is the engines' time at the beginning: their zero means never.
const epoch = clock.Time(time.Second)

// engine returns t as the engines count.
func (t Time) engine() clock.Time { return clock.Time(t/Nanosecond) + epoch }

// ofEngine returns an engine's time.
func ofEngine(t clock.Time) Time { return Time(t-epoch) * Nanosecond }

// handler is a thing that an event befalls.
type handler interface{ happen(s *Sim) }

// event is due at a time. Events of one time happen in the order in which they were scheduled.
type event struct {
	at   Time
	seq  uint64
	what handler
}

func (e *event) before(f *event) bool { return e.at < f.at || e.at == f.at && e.seq < f.seq }

// eventHeap is a heap with four children a node, which is flatter than one with two. Most events schedule another,
// which takes the place of the one that happens: one walk from the root, instead of one to remove and one to add.
type eventHeap struct {
	events []event
	taken  bool // the first has been taken, and nothing has its place yet
}

func (h *eventHeap) push(e event) {
	if h.taken {
		h.taken = false
		h.sink(e)
		return
	}
	h.events = append(h.events, e)
	q, i := h.events, len(h.events)-1
	for i > 0 {
		parent := (i - 1) / 4
		if !e.before(&q[parent]) {
			break
		}
		q[i], i = q[parent], parent
	}
	q[i] = e
}

// first returns the next event; nil: there is none.
func (h *eventHeap) first() *event {
	if h.taken {
		h.taken = false
		n := len(h.events) - 1
		last := h.events[n]
		h.events[n] = event{}
		if h.events = h.events[:n]; n > 0 {
			h.sink(last)
		}
	}
	if len(h.events) == 0 {
		return nil
	}
	return &h.events[0]
}

// take takes the event that first has returned.
func (h *eventHeap) take() event {
	h.taken = true
	return h.events[0]
}

// sink puts an event in the place of the first.
func (h *eventHeap) sink(e event) {
	q, i := h.events, 0
	for {
		child := 4*i + 1
		if child >= len(q) {
			break
		}
		least := child
		for c := child + 1; c < min(child+4, len(q)); c++ {
			if q[c].before(&q[least]) {
				least = c
			}
		}
		if !q[least].before(&e) {
			break
		}
		q[i], i = q[least], least
	}
	q[i] = e
}
