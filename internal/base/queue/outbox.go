// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"github.com/ramjet-rdma/ramjet/internal/base/clock"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// Outbox collects the completions and events of queue pairs that work one after the other: the queue pairs of a lane.
type Outbox struct {
	Completions []Completion
	Events      []Event
	Failures    []*verbs.Failure
	Samples     []Sample
}

// Sample is a work request that has completed with success, and whose time is measured.
type Sample struct {
	Op     verbs.WCOp
	Posted clock.Time
}

// Completion is a work completion on its way to its queue. The goroutine that drains the outbox sets its timestamp.
type Completion struct {
	WC        verbs.WC
	CQ        *CQ
	Solicited bool
	Frees     Frees
}

// Event is an asynchronous event of a queue pair or of a shared receive queue.
type Event struct {
	Type  verbs.EventType
	Owner any // the device's own
}

// Complete adds a completion, which is zero but for its queue, and returns it to be filled in.
func (o *Outbox) Complete(cq *CQ) *Completion {
	n := len(o.Completions)
	if n == cap(o.Completions) {
		o.Completions = append(o.Completions, Completion{})
	}
	o.Completions = o.Completions[:n+1] // which is zero
	c := &o.Completions[n]
	c.CQ = cq
	return c
}

// Raise adds an event.
func (o *Outbox) Raise(t verbs.EventType, owner any) {
	o.Events = append(o.Events, Event{Type: t, Owner: owner})
}

// Reset empties the outbox.
func (o *Outbox) Reset() {
	clear(o.Completions)
	o.Completions = o.Completions[:0]
	clear(o.Events)
	o.Events = o.Events[:0]
	clear(o.Failures)
	o.Failures = o.Failures[:0]
	o.Samples = o.Samples[:0]
}
