// SPDX-License-Identifier: Apache-2.0

package packetdev

import (
	"slices"
	"time"

	"github.com/ramjet-rdma/ramjet/internal/base/clock"
	"github.com/ramjet-rdma/ramjet/internal/base/memory"
	"github.com/ramjet-rdma/ramjet/internal/base/queue"
	"github.com/ramjet-rdma/ramjet/internal/core/softdev"
	"github.com/ramjet-rdma/ramjet/internal/engine/congestion"
	"github.com/ramjet-rdma/ramjet/internal/engine/ibta"
	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/verbs/driver"
)

// qp is a queue pair of a [Device].
type qp struct {
	softdev.QP
	dev       *Device
	lane      *lane
	engine    *ibta.QP
	groups    []group // multicast groups that it is attached to
	blockSelf bool    // to the multicasts that it sends itself (verbs.QPInit.BlockSelfMulticast)

	timer   softdev.Timer // for the engine's deadline
	ready   bool          // in the list of queue pairs that may have something to send
	ackHeld bool          // in the list of queue pairs whose acknowledgement is held back
}

func (d *Device) NewQP(domain memory.PD, init *verbs.QPInit) (softdev.QueuePair, error) {
	return d.makeQP(domain, nil, init)
}

// makeQP makes a queue pair, with xrc for the target of an XRC connection.
func (d *Device) makeQP(domain memory.PD, xrc *queue.Domain, init *verbs.QPInit) (softdev.QueuePair, error) {
	control, err := congestionOf(init)
	if err != nil {
		return nil, err
	}
	l := d.laneFor(init.Type)
	q := &qp{dev: d, lane: l, blockSelf: init.BlockSelfMulticast}
	c := queue.Config{Num: l.newQPN(), Type: init.Type, PD: domain, Domain: xrc, SignalAll: init.SignalAll, Owner: q,
		Caps: init.Cap}
	if init.SendCQ != nil {
		c.SendCQ = driver.CQOf(init.SendCQ).(*softdev.CQ).FedBy(l.core)
	}
	if init.RecvCQ != nil {
		c.RecvCQ = driver.CQOf(init.RecvCQ).(*softdev.CQ).FedBy(l.core)
	}
	if init.SRQ != nil || init.Type <= verbs.UD {
		c.Recv = q.Receives(init, domain)
	}
	if init.Type == verbs.UD {
		l.port.WantHeaders()
	}
	q.engine = ibta.New(&d.engine, &l.engine, c)
	q.engine.SetCongestion(control)
	q.QP.Init(l.core, q, q.engine)
	q.timer.Fire = q.timeout
	return q, nil
}

// congestionOf returns the congestion control that a queue pair chooses; nil: the device's.
func congestionOf(init *verbs.QPInit) (*congestion.Choice, error) {
	if init.Congestion == "" {
		return nil, nil
	}
	c, err := congestion.Parse(init.Congestion)
	switch {
	case err != nil:
		return nil, &verbs.OpError{Op: "create_qp", Err: verbs.ErrInvalid, Detail: err.Error()}
	case init.Type == verbs.UC || init.Type == verbs.UD:
		return nil, &verbs.OpError{Op: "create_qp", Err: verbs.ErrNotSupported,
			Detail: "congestion control of " + init.Type.String() + ": nothing is acknowledged"}
	}
	return c, nil
}

func (q *qp) Change(attr *verbs.QPAttr, mask verbs.QPMask) error {
	l := q.lane
	l.settle(q)
	if mask&verbs.MaskState != 0 && attr.State == verbs.StateSQD {
		l.core.NewTime()
		l.transmit(false) // work requests posted before are not to wait for the program's next poll
	}
	av := q.engine.AV()
	err := q.engine.Modify(attr, mask)
	if av != q.engine.AV() {
		l.dropFlow(av)
	}
	l.kick(q)
	return err
}

func (q *qp) Failed() { q.lane.schedule.addReady(q) } // others may have its room in the flow

func (q *qp) Posted() { q.lane.kick(q) }

func (q *qp) Received() {}

func (q *qp) Release() error {
	l := q.lane
	if len(q.groups) > 0 {
		return softdev.ErrAttached
	}
	l.settle(q)
	av := q.engine.AV()
	q.engine.Destroy()
	l.core.Timers.Stop(&q.timer)
	l.schedule.remove(q)
	l.dropFlow(av)
	if l.last == q {
		l.last = nil
	}
	l.core.NewTime()
	l.transmit(!l.core.PollsOn()) // others may have its room in the flow
	return nil
}

// timeout tells the engine of its deadline. One that has moved back is found out when the old one comes. Where this
// pass has received packets, the packets that it left may be answers: the next passes receive them first, for a while.
func (q *qp) timeout() {
	l := q.lane
	if due, now := q.engine.Deadline(), l.core.PassTime(); due != 0 && due <= now {
		if l.progress.passPackets > 0 && now-due < readFirst {
			l.core.Timers.Set(&q.timer, now+1)
			return
		}
		q.engine.HandleTimeout(now)
		l.schedule.addReady(q)
	}
	l.setTimer(q)
}

// readFirst is how long a deadline waits for passes that receive.
const readFirst = clock.Time(500 * time.Microsecond)

// setTimer has the timer fire no later than the engine's deadline.
func (l *lane) setTimer(q *qp) { l.core.Timers.SetBy(&q.timer, q.engine.Deadline()) }

// group is a multicast group as a port has it. Its GID tells it from others: all multicast packets
// are global (IBTA 10.5.1).
type group struct {
	gid  verbs.GID
	port uint8
}

func (q *qp) AttachMulticast(gid verbs.GID, lid uint16) error {
	d := q.dev
	d.Lane.Mu.Lock()
	defer d.Lane.Mu.Unlock()
	if d.Closed.Load() {
		return verbs.ErrClosed
	}
	if q.engine.Type != verbs.UD || !gid.Addr().IsMulticast() {
		return &verbs.OpError{Op: "attach_mcast", Err: verbs.ErrInvalid,
			Detail: "needs a UD queue pair and a multicast GID"}
	}
	g := group{gid, uint8(q.engine.Port().Num)}
	if slices.Contains(q.groups, g) {
		return nil
	}
	if len(d.groups[g]) == 0 {
		if err := d.port.JoinGroup(int(g.port), gid, lid); err != nil {
			return err
		}
	}
	q.groups = append(q.groups, g)
	d.groups[g] = append(d.groups[g], q)
	return nil
}

func (q *qp) DetachMulticast(gid verbs.GID, lid uint16) error {
	d := q.dev
	d.Lane.Mu.Lock()
	defer d.Lane.Mu.Unlock()
	i := slices.IndexFunc(q.groups, func(g group) bool { return g.gid == gid })
	switch {
	case d.Closed.Load():
		return verbs.ErrClosed
	case i < 0:
		return softdev.ErrNotAttached
	}
	g := q.groups[i]
	q.groups = slices.Delete(q.groups, i, i+1)
	members := d.groups[g]
	members = slices.DeleteFunc(members, func(m *qp) bool { return m == q })
	if len(members) > 0 {
		d.groups[g] = members
		return nil
	}
	delete(d.groups, g)
	return d.port.LeaveGroup(int(g.port), gid, lid)
}
