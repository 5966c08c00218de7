// SPDX-License-Identifier: Apache-2.0

package check

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/verbs/driver"
)

const (
	// patience is how long a program may wait for events of completion queues that another thread is still to arm or
	// poll.
	patience = 3 * time.Second
	// glance is how long a wait with a deadline has to be: shorter ones are the program's way of polling.
	glance = 200 * time.Millisecond
)

// wait is a wait for an event of a completion channel.
type wait struct {
	d     *Device
	ch    *verbs.CompChannel
	place Place
	timer *time.Timer
	polls map[*completionQueue]uint64 // of the channel's queues, as it began
}

// armed notes that a program wants an event.
func (d *Device) armed(cq *verbs.CQ) {
	c := d.known.cqs[cq]
	if c == nil {
		return
	}
	c.armed, c.armedAt, c.busy = true, c.polls, !driver.CQOf(cq).Empty()
}

// wait notes that a thread begins to wait.
func (d *Device) wait(ch *verbs.CompChannel) *wait {
	w := &wait{d: d, ch: ch, place: at("It was waited for"), polls: map[*completionQueue]uint64{}}
	for _, c := range d.known.cqs {
		if c.channel == ch {
			w.polls[c] = c.polls
		}
	}
	w.timer = time.AfterFunc(patience, func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		if o := d.known.all[ch]; o != nil && o.gone == nil && slices.Contains(d.waits, w) {
			w.report(w.starves())
		}
	})
	d.waits = append(d.waits, w)
	return w
}

// end notes that a wait has ended with an event of a completion queue, or with an error.
func (w *wait) end(cq *verbs.CQ, err error) {
	w.timer.Stop()
	w.d.waits = slices.DeleteFunc(w.d.waits, func(v *wait) bool { return v == w })
	if c := w.d.known.cqs[cq]; c != nil {
		c.armed = false
	}
	if errors.Is(err, context.DeadlineExceeded) && time.Since(w.place.When) >= glance {
		w.report(false)
	}
}

// report reports that the wait gets no event: completions that were in a queue before it was armed raise none
// (IBTA 11.4.2.2). Another queue of the channel may raise one, and a queue that was polled meanwhile has a thread that
// looks after it. starves says that there is something to wait for, apart from completions.
func (w *wait) report(starves bool) {
	var late *completionQueue
	for _, c := range w.d.known.cqs {
		switch {
		case c.channel != w.ch || !c.armed:
		case !c.busy || c.armedAt != c.polls:
			return
		default:
			late = c
		}
	}
	for c, polls := range w.polls {
		if c.polls != polls || w.d.known.cqs[c.cq] != c {
			return
		}
		starves = starves || !driver.CQOf(c.cq).Empty()
	}
	detail := fmt.Sprintf("No completion queue of %s is armed.", w.d.nameOf(w.ch))
	if late != nil {
		detail = fmt.Sprintf(
			"%s had completions when it was armed, and has not been polled since: they raise no event.",
			w.d.nameOf(late.cq))
	}
	if late != nil || starves {
		w.d.c.Report(&Finding{ChannelUnarmed, detail, []Place{w.place}})
	}
}

// starves reports whether connected queue pairs have work requests that complete at the channel.
func (w *wait) starves() bool {
	has := func(cq *verbs.CQ) bool { _, ok := w.polls[w.d.known.cqs[cq]]; return ok }
	for _, q := range w.d.known.qps {
		sends, recvs := len(q.sends) > 0 && has(q.init.SendCQ), len(q.recvs.recvs) > 0 && has(q.init.RecvCQ)
		if q.state == verbs.StateRTS && (sends || recvs) {
			return true
		}
	}
	return false
}

// waiting follows a wait of a Go program.
func (d *Device) waiting(ch *verbs.CompChannel) end {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.used("ibv_get_cq_event", ch)
	w := d.wait(ch)
	return func(_ any, err error, out ...driver.CallArg) {
		d.mu.Lock()
		defer d.mu.Unlock()
		var cq *verbs.CQ
		if len(out) > 0 {
			cq, _ = out[0].Value.(*verbs.CQ)
		}
		w.end(cq, err)
	}
}

// Waits notes that a thread of a C program is about to wait for an event of a channel.
func (c *Checker) Waits(ch *verbs.CompChannel) {
	if d := c.deviceOf(ch); d != nil {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.wait(ch)
	}
}

// Woken notes that a thread of a C program waits no more. It has got an event of a completion queue; nil: an error.
func (c *Checker) Woken(ch *verbs.CompChannel, cq *verbs.CQ) {
	d := c.deviceOf(ch)
	if d == nil {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if i := slices.IndexFunc(d.waits, func(w *wait) bool { return w.ch == ch }); i >= 0 {
		d.waits[i].end(cq, nil)
	} else if q := d.known.cqs[cq]; q != nil {
		q.armed = false
	}
}
