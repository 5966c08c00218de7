// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package kernel

import "sync/atomic"

// outstanding counts the work requests of a send queue that have not completed. A completion is of the oldest
// signaled one, and of all before it. Posting holds the send queue's lock, and polling the completion
// queue's, so that there is one of each.
type outstanding struct {
	posted    atomic.Uint64
	completed atomic.Uint64 // forgotten by a reset included
	forgotten atomic.Uint64
	marks     []uint64 // how many had been posted with each signaled work request, by its number
	signaled  atomic.Uint64
	seen      atomic.Uint64
}

func (o *outstanding) init(room int) {
	size := 1
	for size < 2*room { // the device has room again before a completion is counted
		size *= 2
	}
	o.marks = make([]uint64, size)
}

// post counts a work request before the device has it.
func (o *outstanding) post(signaled bool) {
	n := o.posted.Add(1)
	if signaled {
		at := o.signaled.Load()
		o.marks[at&uint64(len(o.marks)-1)] = n
		o.signaled.Store(at + 1)
	}
}

// undo takes back the last one, which the device did not take.
func (o *outstanding) undo(signaled bool) {
	o.posted.Add(^uint64(0))
	if signaled {
		o.signaled.Add(^uint64(0))
	}
}

// complete counts a completion with success.
func (o *outstanding) complete() {
	at := o.seen.Load()
	if at == o.signaled.Load() {
		return // of a queue pair that was reset meanwhile
	}
	o.completed.Store(o.marks[at&uint64(len(o.marks)-1)])
	o.seen.Store(at + 1)
}

// reset forgets all.
func (o *outstanding) reset() {
	o.forgotten.Add(o.posted.Load() - o.completed.Load())
	o.completed.Store(o.posted.Load())
	o.seen.Store(o.signaled.Load())
}

func (o *outstanding) count() int { return int(o.posted.Load() - o.completed.Load()) }

// succeeded returns how many have completed with success.
func (o *outstanding) succeeded() uint64 { return o.completed.Load() - o.forgotten.Load() }
