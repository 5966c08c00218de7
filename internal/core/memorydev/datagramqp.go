// SPDX-License-Identifier: Apache-2.0

package memorydev

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/ramjet-rdma/ramjet/internal/base/memory"
	"github.com/ramjet-rdma/ramjet/internal/base/queue"
	"github.com/ramjet-rdma/ramjet/internal/core/softdev"
	"github.com/ramjet-rdma/ramjet/internal/engine/local"
	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/verbs/driver"
)

// datagramQP is a UD queue pair over shared memory.
type datagramQP struct {
	softdev.QP
	all    *datagrams
	engine *local.DatagramQP
	waits  *datagramLink // its oldest datagram waits for room there; nil: it does not wait

	groups    []netip.Addr // multicast groups that it is attached to
	blockSelf bool         // to the multicasts that it sends itself (verbs.QPInit.BlockSelfMulticast)
}

func (u *datagrams) NewQP(domain memory.PD, init *verbs.QPInit) (softdev.QueuePair, error) {
	if err := u.open(); err != nil {
		return nil, err
	}
	q := &datagramQP{all: u, blockSelf: init.BlockSelfMulticast}
	c := queue.Config{Num: u.dev.NewQPN(), Type: init.Type, PD: domain,
		SendCQ: driver.CQOf(init.SendCQ).(*softdev.CQ).Queue, RecvCQ: driver.CQOf(init.RecvCQ).(*softdev.CQ).Queue,
		SignalAll: init.SignalAll, Owner: q, Caps: init.Cap}
	c.Recv = q.Receives(init, domain)
	q.engine = local.NewDatagram(u.engine, u.lane, c)
	q.QP.Init(&u.dev.Lane, q, q.engine)
	return q, nil
}

// advance sends the datagrams that can leave. Datagrams that wait for a device that has not yet answered hold a copy of
// their data: its process may not run for long, and on the network that the device stands for no datagram waits so.
func (q *datagramQP) advance() {
	q.send()
	if q.waits != nil && q.waits.peer == nil {
		q.engine.Keep()
	}
}

// send sends the datagrams that can leave.
func (q *datagramQP) send() {
	u := q.all
	u.dev.Lane.Touch(&q.QP)
	u.dev.Lane.Mu.Counted = true
	var last *datagramLink
	var met *recipients
	for n := 0; q.waits == nil; n++ {
		to, qpn, ok := q.engine.Next()
		if !ok {
			return
		}
		if n == datagramsAtOnce && last != nil { // others have their turn
			last.wait(q)
			last.pollAgain()
			return
		}
		addr := to.Addr()
		if addr.IsMulticast() {
			a := u.recipientsOf(addr)
			if a == nil {
				q.engine.Drop(local.DropNobody)
				continue
			}
			if a != met { // once for all that was posted
				a.connect()
				met = a
			}
			if a.send(q) && len(a.links) > 0 {
				last = a.links[0]
			}
			continue
		}
		l := u.link(addr, qpn)
		if l == nil {
			q.engine.Drop(local.DropNobody)
			continue
		}
		if l.peer != nil && q.sendTo(l) {
			last = l
			continue
		}
		if l.stalled {
			q.engine.Drop(local.DropStalled)
			continue
		}
		l.wait(q)
	}
}

// sendTo sends a datagram to a device. It returns false if there is no room.
func (q *datagramQP) sendTo(l *datagramLink) bool {
	o, wake, err := q.engine.Send(l.peer)
	if err != nil {
		q.engine.Drop(local.DropNobody)
		l.end()
		return true
	}
	if o == local.Copied {
		q.engine.Sent()
		l.sent(wake)
	}
	return o != local.NoRoom
}

// leave no longer waits for room.
func (q *datagramQP) leave() {
	if q.waits != nil {
		q.waits.leave(q)
	}
}

func (q *datagramQP) Change(attr *verbs.QPAttr, mask verbs.QPMask) error {
	if err := q.engine.Modify(attr, mask); err != nil {
		return err
	}
	q.leave()
	q.Posted()
	return nil
}

func (q *datagramQP) Failed() { q.leave() }

func (q *datagramQP) Posted() {
	q.advance()
	q.all.dev.Lane.Deliver()
}

func (q *datagramQP) Received() {}

func (q *datagramQP) Release() error {
	if len(q.groups) > 0 {
		return softdev.ErrAttached
	}
	q.leave()
	q.engine.Destroy()
	return nil
}

func (q *datagramQP) AttachMulticast(gid verbs.GID, _ uint16) error {
	d := q.all.dev
	d.Lane.Mu.Lock()
	defer d.Lane.Mu.Unlock()
	addr := gid.Addr()
	switch {
	case d.Closed.Load():
		return verbs.ErrClosed
	case !addr.IsMulticast():
		return &verbs.OpError{Op: "attach_mcast", Err: verbs.ErrInvalid,
			Detail: fmt.Sprintf("%v is no multicast GID", gid)}
	case slices.Contains(q.groups, addr):
		return nil
	}
	d.Lane.NewTime()
	err := q.all.attach(q, addr)
	if err == nil {
		q.groups = append(q.groups, addr)
	}
	return err
}

func (q *datagramQP) DetachMulticast(gid verbs.GID, _ uint16) error {
	d := q.all.dev
	d.Lane.Mu.Lock()
	defer d.Lane.Mu.Unlock()
	i := slices.Index(q.groups, gid.Addr())
	switch {
	case d.Closed.Load():
		return verbs.ErrClosed
	case i < 0:
		return softdev.ErrNotAttached
	}
	d.Lane.NewTime()
	q.all.detach(q, q.groups[i])
	q.groups = slices.Delete(q.groups, i, i+1)
	return nil
}

// datagramAH is an address handle.
type datagramAH struct {
	dev  *softdev.Device
	attr verbs.AHAttr
	softdev.ObservedAH
}

func (u *datagrams) NewAH(attr verbs.AHAttr) (driver.AH, error) {
	attr.Port = max(attr.Port, 1)
	if err := u.dev.CheckPort(attr.Port); err != nil {
		return nil, err
	}
	if err := u.net.Resolve(&attr); err != nil {
		return nil, err
	}
	if err := u.dev.Counts.Handles.Add(); err != nil {
		return nil, err
	}
	return &datagramAH{dev: &u.dev.Device, attr: attr}, nil
}

// Vector returns the address vector.
func (a *datagramAH) Vector() verbs.AHAttr { return a.attr }

// Destroy frees the handle; datagrams that were posted hold the vector.
func (a *datagramAH) Destroy() error {
	a.dev.Lane.Mu.Lock()
	defer a.dev.Lane.Mu.Unlock()
	a.dev.RemoveAH(&a.ObservedAH)
	a.dev.Counts.Handles.Remove()
	return nil
}
