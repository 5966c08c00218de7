// SPDX-License-Identifier: Apache-2.0

package softdev

import (
	"github.com/ramjet-rdma/ramjet/internal/base/clock"
	"github.com/ramjet-rdma/ramjet/internal/base/queue"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// pass is the state of one pass, in which a lane takes packets that have arrived, runs timers that are due, and sends.
type pass struct {
	now       clock.Time // zero: the clock was not read yet
	count     uint       // of passes so far
	completed int        // work requests, since the last receive
}

// timersEvery is how many passes of a polling program that find nothing share a check of the timers.
const timersEvery = 16

// PassTime returns the time of the current pass.
func (l *Lane) PassTime() clock.Time {
	if l.pass.now == 0 {
		l.pass.now = l.Now()
	}
	return l.pass.now
}

// NewTime makes the time be read again: much may have passed since the last pass.
func (l *Lane) NewTime() { l.pass.now = 0 }

// Passes returns how many passes there were so far.
func (l *Lane) Passes() uint { return l.pass.count }

// Completed returns how many work requests have completed since the last receive.
func (l *Lane) Completed() int { return l.pass.completed }

// move makes a pass and returns how much was received. polling says that a program makes it, which
// will poll again.
func (l *Lane) move(polling bool) int {
	l.pass.count++
	l.sleep.unmoved = false
	busy := l.transport.Pending() // including the work that the previous pass left, as passes take long
	l.NewTime()
	l.pass.completed = 0
	if l.broken.some.Load() {
		l.breakNow()
	}
	n := l.transport.Receive()
	if n > 0 {
		l.Mu.Counted = true
		l.Deliver()
		l.dev.TellWatchers()
	}
	if len(l.Timers) > 0 && l.looksAtTimers(polling, n > 0 || busy) && l.Timers.run(l.PassTime()) {
		l.Mu.Counted = true
	}
	l.transport.Respond(polling, n, busy)
	return n
}

// looksAtTimers reports whether a pass does. Where posts complete work requests, and a pass takes less time than to
// read the clock, arrivals are no reason to read it.
func (l *Lane) looksAtTimers(polling, found bool) bool {
	return !polling || found && !l.alone || l.pass.count%timersEvery == 0
}

// poll moves data for a program that polls, which found from empty; nil: it waits in memory. The
// lock is held.
func (l *Lane) poll(from *queue.CQ) int {
	if l.dev.Closed.Load() {
		return 0
	}
	l.transport.Polling(from)
	n := l.move(true)
	l.polls.pollers.at(l.pass.now)
	l.Mu.later = n > 0 && l.pass.count%publishEvery != 0
	if l.transport.Long(n) {
		l.polled(longPoll)
	}
	return n
}

// Deliver delivers completions to their queues and events to the program.
func (l *Lane) Deliver() {
	out := l.outbox
	if len(out.Completions) == 0 && len(out.Events) == 0 && len(out.Samples) == 0 {
		return
	}
	for _, s := range out.Samples {
		l.dev.recordLatency(s.Op, l.PassTime()-s.Posted)
	}
	if len(l.dev.Lanes) > 1 {
		l.awaitAccesses()
	}
	if l.dev.memory.IsRebound() { // by a work request that sends nothing
		l.Mu.Counted = true
	}
	l.pass.completed += len(out.Completions)
	for i := 0; i < len(out.Completions); i++ { // an overflow adds more
		c := &out.Completions[i]
		l.Complete(c)
	}
	for _, e := range out.Events {
		if o, ok := e.Owner.(eventSink); ok {
			o.raise(e.Type)
		}
	}
	if len(out.Failures) > 0 && l.dev.failed != nil {
		for _, f := range out.Failures {
			l.dev.failed(f)
		}
	}
	out.Reset()
}

// Complete delivers a completion to its queue, unless faults say otherwise.
func (l *Lane) Complete(c *queue.Completion) {
	x := l.dev.faulty.Load()
	if x == nil {
		l.push(c)
		return
	}
	qpn := c.WC.QPN
	now, fails := x.complete(l, c)
	if now {
		l.push(c)
	}
	if fails {
		x.breakQP(qpn)
	}
}

// push adds a completion to its queue.
func (l *Lane) push(c *queue.Completion) {
	if l.dev.shared.NIC {
		withhold(&c.WC)
	}
	if !c.CQ.Untimed {
		c.WC.Timestamp = uint64(l.PassTime())
	}
	if !c.CQ.Push(&c.WC, c.Solicited, c.Frees) {
		l.overflowed(c.CQ, c.WC.QPN)
	}
	if l.pollOwner.owned && l.sleep.waiting {
		l.transport.Wake() // it may wait for this
	}
}

// overflowed puts the queue pair whose completion was lost into the error state; of a NIC all that have the
// completion queue.
func (l *Lane) overflowed(cq *queue.CQ, n verbs.QPN) {
	if q := l.dev.QPs[n]; q != nil {
		l.breakFatally(q)
	}
	if l.dev.shared.NIC {
		l.breakUsers(cq)
	}
}

// breakFatally puts a queue pair that can report no completion into the error state (IBTA 11.6.3.2), or has its lane do
// so.
func (l *Lane) breakFatally(q QueuePair) {
	c := q.Common()
	if c.lane != l {
		c.lane.breakSoon(q)
		return
	}
	if s := c.protocol.State(); s != verbs.StateError && s != verbs.StateReset {
		c.protocol.Modify(&verbs.QPAttr{State: verbs.StateError}, verbs.MaskState)
		q.Failed()
		c.raise(verbs.EventQPFatal)
	}
}

// eventSink is a queue pair or shared receive queue whose program gets events.
type eventSink interface{ raise(verbs.EventType) }
