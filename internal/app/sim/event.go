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

// eventHeap is a heap with four children a node, which is flatter than one with two.
type eventHeap []event

func (h *eventHeap) push(e event) {
	*h = append(*h, e)
	q, i := *h, len(*h)-1
	for i > 0 {
		parent := (i - 1) / 4
		if !e.before(&q[parent]) {
			break
		}
		q[i], i = q[parent], parent
	}
	q[i] = e
}

func (h *eventHeap) pop() event {
	q := *h
	first, last := q[0], q[len(q)-1]
	q[len(q)-1] = event{}
	q = q[:len(q)-1]
	*h = q
	if len(q) == 0 {
		return first
	}
	i := 0
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
		if !q[least].before(&last) {
			break
		}
		q[i], i = q[least], least
	}
	q[i] = last
	return first
}
