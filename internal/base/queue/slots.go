// SPDX-License-Identifier: Apache-2.0

package queue

import "sync/atomic"

// Slots counts the places of a work queue that are taken, where the queues are as long as a NIC's: a work request
// keeps its place until the program has polled its completion, or for an unsignaled one that of a later work
// request of the queue (IBTA 10.7.3.1). Without Slots, places are free as soon as work requests complete.
type Slots struct{ taken atomic.Int32 }

// Taken returns how many places are taken; 0 without Slots.
func (s *Slots) Taken() int {
	if s == nil {
		return 0
	}
	return int(s.taken.Load())
}

// add changes the number of places that are taken.
func (s *Slots) add(n int32) {
	if s != nil {
		s.taken.Add(n)
	}
}

// Frees are the places of a work queue that are free once a completion has been polled.
type Frees struct {
	of *Slots // nil: none
	n  int32
}

func (f Frees) free() { f.of.add(-f.n) }
