// SPDX-License-Identifier: Apache-2.0

package streamdev

import (
	"fmt"
	"time"

	"github.com/ramjet-rdma/ramjet/internal/base/clock"
	"github.com/ramjet-rdma/ramjet/internal/base/memory"
	"github.com/ramjet-rdma/ramjet/internal/base/queue"
	"github.com/ramjet-rdma/ramjet/internal/core/softdev"
	"github.com/ramjet-rdma/ramjet/internal/engine/rdmap"
	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/verbs/driver"
)

// QP is a queue pair of a [Device].
type QP struct {
	softdev.QP
	dev      *Device
	typ      verbs.QPType
	Engine   Engine
	Endpoint Endpoint
	srq      *softdev.SRQ
	conn     *Conn
	posts    uint // posted since pass
	pass     uint
	polls    uint32 // poll count when the first of them was posted
	polled   bool   // the program polled before that

	redial        softdev.Timer // makes another attempt to connect
	waitTimer     softdev.Timer // ends the wait of work requests for a stream
	waitPartsLeft int           // parts of that wait that are left
	attempt       uint
	nobody        bool // the last attempt found no device at the peer's address
}

func (d *Device) NewQP(domain memory.PD, init *verbs.QPInit) (softdev.QueuePair, error) {
	if init.Congestion != "" {
		return nil, &verbs.OpError{Op: "create_qp", Err: verbs.ErrNotSupported,
			Detail: "congestion control of a queue pair: what carries the device's streams has its own"}
	}
	if u := d.carrier.Datagrams(); u != nil && init.Type == verbs.UD {
		return u.NewQP(domain, init)
	}
	if init.Type != verbs.RC && (init.Type != verbs.UC || d.Attr.Caps&verbs.CapUC == 0) {
		return nil, &verbs.OpError{Op: "create_qp", Err: verbs.ErrNotSupported,
			Detail: fmt.Sprintf("%v: the device has no such queue pairs, as it connects them by streams", init.Type)}
	}
	q := &QP{dev: d, typ: init.Type}
	c := queue.Config{Num: d.rendezvous.newQPN(d), Type: init.Type, PD: domain,
		SendCQ: driver.CQOf(init.SendCQ).(*softdev.CQ).Queue, RecvCQ: driver.CQOf(init.RecvCQ).(*softdev.CQ).Queue,
		SignalAll: init.SignalAll, Owner: q, Caps: init.Cap}
	c.Recv = q.Receives(init, domain)
	if init.SRQ != nil {
		q.srq = driver.SRQOf(init.SRQ).(*softdev.SRQ)
	}
	d.carrier.Equip(q, c)
	q.QP.Init(&d.Lane, q, q.Engine)
	q.redial.Fire = q.connect
	q.waitTimer.Fire = q.waitExpired
	return q, nil
}

func (q *QP) Change(attr *verbs.QPAttr, mask verbs.QPMask) error {
	d := q.dev
	before := q.Engine.State()
	d.transmit() // of requests that were posted before
	if err := q.Engine.Modify(attr, mask); err != nil {
		return err
	}
	d.Lane.NewTime()
	if s := q.Engine.State(); before == verbs.StateInit && s == verbs.StateRTR ||
		before == verbs.StateRTR && s == verbs.StateRTS {
		q.connect()
	}
	q.applyState()
	d.transmit()
	return nil
}

func (q *QP) Failed() { q.applyState() }

// applyState applies the queue pair's state to the stream.
func (q *QP) applyState() {
	d := q.dev
	switch q.Engine.State() {
	case verbs.StateReset:
		q.stopConnecting()
		if c := q.conn; c != nil {
			c.End(true)
		}
	case verbs.StateError:
		q.stopConnecting()
	}
	if q.conn != nil {
		d.AddReady(q.conn)
	}
}

// stopConnecting stops the attempts to connect.
func (q *QP) stopConnecting() {
	q.dev.Lane.Timers.Stop(&q.redial)
	q.dev.Lane.Timers.Stop(&q.waitTimer)
	q.attempt = 0
}

// Posted sends the work request that was just posted. One that is posted right after another joins the next write.
func (q *QP) Posted() {
	d := q.dev
	if q.conn == nil || !q.Engine.Up() {
		q.startWait()
		d.Lane.Touch(&q.QP)
		d.Lane.Mu.Counted = true // a message of UC may have been dropped
		d.Lane.Deliver()
		return
	}
	if q.Endpoint.Prompt() && d.ready.Len() == 0 {
		d.sends = softdev.Budget{}
		q.Endpoint.Transmit()
		d.Lane.Deliver()
		if d.ready.Len() > 0 {
			d.Lane.WakeBy(d.Lane.PassTime()) // the program may never poll
		}
		return
	}
	d.AddReady(q.conn)
	if q.pass != d.Lane.Passes() {
		polls := d.Lane.Polls()
		q.polled, q.polls = polls != q.polls, polls
		q.pass, q.posts = d.Lane.Passes(), 0
	}
	q.posts++
	if programPolls := d.Lane.PollsOn(); (programPolls || q.polled) &&
		(q.posts > 1 || d.Lane.Completed() >= bulkCompletions) && q.posts%burst != 0 {
		if !programPolls {
			d.Lane.WakeBy(d.Lane.PassTime() + clock.Time(softdev.GracePeriod)) // the program may never poll again
		}
		return
	}
	d.transmit()
}

// UnreliableTimeout is how long datagrams, and messages of UC, wait for a device whose process takes none. Switches of
// InfiniBand have such a limit, too (HOQLife, IBTA 14.2.5.6).
const UnreliableTimeout = clock.Time(4 * time.Second)

// waitParts is the number of parts of the wait for a stream: if the process is stopped for long, that
// counts as one part.
const waitParts = 8

// startWait limits the time that work requests wait for a stream.
func (q *QP) startWait() {
	if q.Engine.Waiting() && !q.waitTimer.IsSet() && q.waitTime() != 0 {
		q.waitPartsLeft = waitParts
		q.startWaitPart()
	}
}

// waitTime is that time, 0 for ever: that of the retries, if a link can be established in that time.
func (q *QP) waitTime() clock.Time {
	retries := q.RetryTime()
	switch {
	case q.typ == verbs.UC: // it has no retries
		return UnreliableTimeout
	case retries == 0 || q.nobody:
		return retries
	}
	return max(retries, clock.Time(q.dev.net.SetupTime()))
}

// RetryTime is how long a NIC repeats a request of RC that nobody answers: the local ACK timeout for each attempt
// (IBTA 9.7.6.1.3). It is 0 without a timeout.
func (q *QP) RetryTime() clock.Time {
	a := q.Engine.Attr()
	if a.Timeout == 0 {
		return 0
	}
	return (4096 * clock.Time(a.RetryCount+1)) << a.Timeout
}

// startWaitPart begins the next part of the wait.
func (q *QP) startWaitPart() {
	q.dev.Lane.Timers.Set(&q.waitTimer, q.dev.Lane.PassTime()+q.waitTime()/waitParts)
	q.dev.Lane.WakeForTimer()
}

// waitExpired fails the work requests that wait for a stream that does not come. If the stream is being set up it goes
// on waiting: the set-up has a timeout of its own.
func (q *QP) waitExpired() {
	if q.waitPartsLeft--; q.waitPartsLeft > 0 {
		if q.Engine.Waiting() {
			q.startWaitPart()
		}
		return
	}
	if q.settingUp() {
		q.startWait()
		return
	}
	if q.Engine.Waiting() {
		q.Engine.Lost(false)
		q.applyState()
	}
}

// settingUp reports whether a stream to the peer is being set up, and waits only for processors and the network.
func (q *QP) settingUp() bool {
	d := q.dev
	if c := q.conn; c != nil && c.stage() == rdmap.StageReply {
		c.readSetup() // this process may have been late: the reply may be there
	}
	if c := q.conn; c != nil && c.stage() <= rdmap.StageReply && c.link.Starting() {
		return true
	}
	return d.net.Arriving() || d.rendezvous.listener.silent.Any(q.Engine.Attr().AH.DGID.Addr(),
		func(c *Conn) bool { return !c.handshake.Late && c.link.Starting() })
}

func (q *QP) Received() {
	if q.Engine.Paused() {
		q.resume()
		q.dev.resumed()
	}
}

// resume continues a stream that waited for a receive. resumed handles the results.
func (q *QP) resume() {
	q.Engine.Resume()
	if q.conn != nil {
		q.conn.goneChecks = 0
		if !q.Engine.Paused() && q.conn.phase == running {
			q.Endpoint.Watch()
			q.Endpoint.Resumed()
		}
	}
	if q.conn != nil { // it may have ended
		q.dev.AddReady(q.conn) // a READ may have to be answered
	}
}

// resumed sends and delivers the results of streams that were resumed, in one pass. Completions of
// messages received are delivered now, even if the streams wait again.
func (d *Device) resumed() {
	d.Lane.NewTime()
	d.transmit()
	d.TellWatchers()
}

// resumeAll resumes all queue pairs of a shared receive queue. Each time it begins with another
// one, so that none starves.
func (d *Device) resumeAll(s *softdev.SRQ) {
	went := false
	for range d.established {
		if s.Queue.Len() == 0 || len(d.established) == 0 { // one that goes on may end
			break
		}
		d.lastShared = (d.lastShared + 1) % len(d.established)
		if q := d.established[d.lastShared].qp; q.srq == s && q.Engine.Paused() {
			q.resume()
			went = true
		}
	}
	if went {
		d.resumed()
	}
}

func (q *QP) Release() error {
	q.stopConnecting()
	if q.conn != nil {
		q.conn.End(q.conn.inUse())
	}
	q.Engine.Destroy()
	return nil
}

func (q *QP) AttachMulticast(verbs.GID, uint16) error {
	if q.dev.isClosed() {
		return verbs.ErrClosed
	}
	return &verbs.OpError{Op: "attach_mcast", Err: verbs.ErrInvalid,
		Detail: "it takes no datagrams, and with them no multicast"}
}

func (q *QP) DetachMulticast(verbs.GID, uint16) error {
	return softdev.ErrNotAttached
}
