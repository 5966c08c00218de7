// SPDX-License-Identifier: Apache-2.0

package softdev

import (
	"github.com/ramjet-rdma/ramjet/internal/core/clock"
	"github.com/ramjet-rdma/ramjet/internal/core/queue"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// pass is the state of one pass: what has arrived, what is due, what can be sent.
type pass struct {
	now       clock.Time // zero: the clock was not read yet
	count     uint       // of passes so far
	completed int        // work requests, since the last receive
}

// timersEvery is how many empty passes of a polling program share a check of the timers.
const timersEvery = 16

// passTime returns the time of the current pass.
func (d *Device) passTime() clock.Time {
	if d.pass.now == 0 {
		d.pass.now = d.now()
	}
	return d.pass.now
}

// newTime makes the time be read again: much may have passed since the last pass.
func (d *Device) newTime() { d.pass.now = 0 }

// move makes a pass and returns how much was received. polling says that a program makes it, which
// will poll again.
func (d *Device) move(polling bool) int {
	d.pass.count++
	busy := d.fabric.pending() // including what the previous turn left, as passes take long
	d.newTime()
	d.pass.completed = 0
	n := d.fabric.receive()
	if n > 0 {
		d.mu.counted = true
		d.deliver()
		d.tellWatchers()
	}
	if len(d.timers) > 0 && (n > 0 || busy || !polling || d.pass.count%timersEvery == 0) && d.timers.run(d.passTime()) {
		d.mu.counted = true
	}
	d.fabric.respond(polling, n, busy)
	return n
}

// poll moves data for a program that polls, which found from empty; nil: it waits in memory. The
// lock is held.
func (d *Device) poll(from *queue.CQ) int {
	if d.closed {
		return 0
	}
	d.fabric.polling(from)
	n := d.move(true)
	d.mu.later = n > 0 && d.pass.count%publishEvery != 0
	if d.fabric.long(n) {
		d.polled(longPoll)
	}
	return n
}

// deliver delivers completions to their queues and events to the program.
func (d *Device) deliver() {
	out := &d.shared.Outbox
	if len(out.Completions) == 0 && len(out.Events) == 0 {
		return
	}
	d.pass.completed += len(out.Completions)
	now := d.passTime()
	for i := 0; i < len(out.Completions); i++ { // an overflow adds more
		c := &out.Completions[i]
		c.WC.Timestamp = uint64(now)
		qpn := c.WC.QPN
		if !c.CQ.Push(&c.WC, c.Solicited) {
			d.overflowed(qpn)
		}
	}
	for _, e := range out.Events {
		if o, ok := e.Owner.(eventSink); ok {
			o.raise(e.Type)
		}
	}
	out.Reset()
}

// overflowed puts the queue pair whose completion was lost into the error state.
func (d *Device) overflowed(n verbs.QPN) {
	q := d.qps[n]
	if q == nil {
		return
	}
	if c := q.common(); c.protocol.State() != verbs.Err {
		c.protocol.Modify(&verbs.QPAttr{State: verbs.Err}, verbs.MaskState)
		q.failed()
		c.raise(verbs.EventQPFatal)
	}
}

// eventSink is a queue pair or shared receive queue whose program gets events.
type eventSink interface{ raise(verbs.EventType) }
