// SPDX-License-Identifier: Apache-2.0

package memorydev

import (
	"io"
	"time"

	"github.com/ramjet-rdma/ramjet/internal/base/clock"
	"github.com/ramjet-rdma/ramjet/internal/base/queue"
	"github.com/ramjet-rdma/ramjet/internal/core/softdev"
	"github.com/ramjet-rdma/ramjet/internal/core/streamdev"
	"github.com/ramjet-rdma/ramjet/internal/engine/local"
	"github.com/ramjet-rdma/ramjet/internal/engine/rdmap"
	"github.com/ramjet-rdma/ramjet/verbs"
)

const (
	// budget is how many bytes a queue pair moves before it looks at the time.
	budget = 256 << 10
	// restTime is the time between checks of a connection whose peer is there: the network tells of its end.
	restTime = clock.Time(time.Minute)
)

// endpoint is a queue pair's part of the memory.
type endpoint struct {
	carrier   *carrier
	engine    *local.QP
	qp        *softdev.QP
	c         *streamdev.Conn
	link      Link
	peer      *local.Peer
	done      queue.Completion // of the last operation that was performed
	drains    bool             // the connection's bound limits how long a refusal waits for room
	endedAt   uint             // the pass that found the peer gone; 0: it is there
	rnrTimer  softdev.Timer    // of the peer's message that waits for a receive
	pause     uint64           // which message that is: local.QP.Pauses
	since     clock.Time       // when it has found none first
	retries   uint64           // RNR NAKs that were counted of it, besides the first
	ucTimer   softdev.Timer    // UC: drops messages that wait for room
	goneTimer softdev.Timer    // fails work requests that were sent to a peer that has gone
}

func (ep *endpoint) Begin(c *streamdev.Conn, p rdmap.Params) bool {
	d, err := ep.carrier.domain(ep.engine.PD)
	if err != nil {
		return false
	}
	link, managed := c.Link().(Link), ep.engine.State() == verbs.StateInit
	peer, err := link.Join(d)
	if err != nil || !ep.engine.Begin(peer, p.IRD, p.ORD) {
		return false
	}
	ep.c, ep.link, ep.peer, ep.drains, ep.endedAt, ep.pause = c, link, peer, false, 0, 0
	if managed {
		ep.agreeOnRetries()
	}
	ep.again() // it may have done something before
	return true
}

func (ep *endpoint) Prompt() bool                  { return true }
func (ep *endpoint) Draining() bool                { return ep.drains }
func (ep *endpoint) First(rdmap.Params) clock.Time { return ep.Check() }

// Check returns when to look again whether the peer has ended, and its last message still waits for a receive.
func (ep *endpoint) Check() clock.Time {
	if ep.c.Link().Ended() {
		return streamdev.CheckTime
	}
	return restTime
}

func (ep *endpoint) Detach() {
	ep.carrier.dev.Lane.Timers.Stop(&ep.rnrTimer)
	ep.carrier.dev.Lane.Timers.Stop(&ep.ucTimer)
	ep.carrier.dev.Lane.Timers.Stop(&ep.goneTimer)
	ep.engine.Part()
	ep.c, ep.link, ep.peer = nil, nil, nil
}

// Watch does nothing: the network reports a link when its peer did something.
func (ep *endpoint) Watch() {}

// startUCTimer bounds how long messages of UC wait for room. some says that one has found room.
func (ep *endpoint) startUCTimer(some bool) {
	d := ep.carrier.dev
	if ep.engine.Type != verbs.UC {
		return
	}
	d.Lane.Touch(ep.qp)
	d.Lane.Mu.Counted = true // one may have been dropped
	switch held := ep.engine.Held(); {
	case !held:
		d.Lane.Timers.Stop(&ep.ucTimer)
	case some || !ep.ucTimer.IsSet():
		d.Lane.Timers.Set(&ep.ucTimer, d.Lane.PassTime()+streamdev.UnreliableTimeout)
		d.Lane.WakeForTimer()
	}
}

// ucTimeout drops them.
func (ep *endpoint) ucTimeout() {
	ep.engine.Stall()
	ep.carrier.dev.Lane.Mu.Counted = true
	ep.carrier.dev.Lane.Deliver()
}

// Receive handles the peer's messages and completions.
func (ep *endpoint) Receive() int {
	c, d := ep.c, ep.carrier.dev
	d.Lane.Touch(&c.QP().QP)
	d.Lane.Mu.Counted = true
	ended := ep.link.Ended()
	if ended {
		ep.engine.DropResponses()
		if !ep.drains {
			c.CheckBy(d.Lane.PassTime() + streamdev.CheckTime)
		}
	}
	count, moved := ep.engine.Receive(budget)
	ep.awaitReceive()
	d.Moved(moved)
	ep.ring()
	ended = ended && !ep.engine.Paused() && !ep.engine.Flushing()
	if ended && count == 0 && !ep.peer.Arrived() && ep.othersSeen() {
		ep.lost()
		return 1
	}
	if ended || ep.engine.More() {
		ep.again() // nothing else will report the link
	}
	if ep.engine.Due() {
		d.AddReady(c)
	}
	return count
}

// othersSeen reports whether the device has looked at all other links since it found the peer gone. A process that
// ends leaves requests done on many links: their completions come before the status of a request that it has not done,
// as on a NIC, which goes on trying for a while. A pass takes the links in no order, so that takes a whole one.
func (ep *endpoint) othersSeen() bool {
	now := ep.carrier.dev.Lane.Passes()
	if ep.endedAt == 0 {
		ep.endedAt = now
	}
	return now-ep.endedAt >= 2
}

// lost ends the connection with a peer that has gone. A connection manager reports that on its side.
// Queue pairs that were connected by number find out as on InfiniBand: a request fails after its retries. Until then
// the program may find its other completions, and many programs end with requests left that they do not wait for.
func (ep *endpoint) lost() {
	managed := ep.c.Managed()
	switch {
	case !managed && ep.engine.DropPeer():
		ep.c.End(false)
	case managed && ep.peer.Left():
		ep.c.Lost(io.EOF)
	case !managed && ep.engine.Type == verbs.RC && ep.c.QP().RetryTime() > 0:
		d := ep.carrier.dev
		if !ep.goneTimer.IsSet() {
			d.Lane.Timers.Set(&ep.goneTimer, d.Lane.PassTime()+ep.c.QP().RetryTime())
			d.Lane.WakeForTimer()
		}
	default:
		ep.c.Lost(streamdev.ErrGone)
	}
}

// retriesEnded fails a request to a peer that has gone.
func (ep *endpoint) retriesEnded() { ep.c.Lost(streamdev.ErrGone) }

// again has the next pass look at the link, and makes sure that there is one: the program may never
// poll again.
func (ep *endpoint) again() {
	ep.link.Again()
	ep.carrier.dev.Lane.WakeBy(ep.carrier.dev.Lane.PassTime())
}

// ring wakes the peer, if it sleeps.
func (ep *endpoint) ring() {
	if ep.engine.Rings() {
		ep.link.Ring()
	}
}

// Perform carries out a work request at once.
func (ep *endpoint) Perform(wr *verbs.SendWR) bool {
	d := ep.carrier.dev
	if wr.Op >= verbs.OpSend && wr.Op <= verbs.OpSendInv {
		return ep.send(wr)
	}
	n, ok := ep.engine.Perform(wr, &ep.done.WC)
	if !ok {
		return false
	}
	d.Lane.NewTime()
	d.Lane.Touch(ep.qp)
	d.Lane.Mu.Counted = true
	d.Moved(n)
	if ep.engine.Signals(wr) {
		d.Lane.Deliver() // completions of earlier requests
		d.Lane.Complete(&ep.done)
	}
	return true
}

// send sends a short SEND at once.
func (ep *endpoint) send(wr *verbs.SendWR) bool {
	n, ok := ep.engine.SendShort(wr)
	if !ok {
		return false
	}
	d := ep.carrier.dev
	d.Lane.NewTime()
	d.Lane.Touch(ep.qp)
	d.Lane.Mu.Counted = true
	d.Moved(n)
	ep.ring()
	if ep.engine.More() {
		ep.again()
	}
	d.Lane.Deliver() // completions of earlier ones
	return true
}

// Transmit carries out the work that is due.
func (ep *endpoint) Transmit() {
	c, d := ep.c, ep.carrier.dev
	for d.MaySend() {
		n := ep.engine.Advance(budget)
		if n > 0 {
			d.Lane.Touch(&c.QP().QP)
			d.Lane.Mu.Counted = true
			d.Moved(n)
		}
		ep.ring()
		if ep.engine.Ending() {
			c.End(false)
			return
		}
		if n < budget {
			ep.limitDrain()
			ep.startUCTimer(n > 0)
			if ep.engine.More() { // a request waited for room for its answer
				ep.again()
			}
			return
		}
		d.Sent(n)
	}
	d.AddReady(c)
}

// limitDrain limits the time to tell a peer why its request was refused: it may not look.
func (ep *endpoint) limitDrain() {
	if c := ep.c; ep.engine.State() == verbs.StateError && !ep.drains {
		ep.drains = true
		c.CheckAt(ep.carrier.dev.Lane.PassTime() + streamdev.EndTime)
	}
}
