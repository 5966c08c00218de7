// SPDX-License-Identifier: Apache-2.0

package softdev

import (
	"fmt"
	"slices"

	"github.com/ramjet-rdma/ramjet/internal/ibta"
	"github.com/ramjet-rdma/ramjet/internal/memory"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// qp is a queue pair.
type qp struct {
	dev    *Device
	engine *ibta.QP
	recv   ibta.RecvQueue
	events func(verbs.EventType)
	groups []verbs.GID // multicast groups that it is attached to
	deaf   bool        // to the multicasts that it sends itself (verbs.QPBlockSelfMulticast)

	due     ibta.Time // when it is in the timer heap; zero: it is not
	index   int       // within the heap
	ready   bool      // in the list of those that may have something to send
	ackHeld bool      // in the list of those whose acknowledgement is held back
}

func (p *pd) CreateQP(spec verbs.QPSpec) (verbs.QPDriver, error) {
	return p.dev.createQP(p.num, nil, &spec)
}

func (d *Device) createQP(domain memory.PD, xrc *ibta.Domain, spec *verbs.QPSpec) (verbs.QPDriver, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return nil, verbs.ErrClosed
	}
	if len(d.qps) >= maxQP {
		return nil, verbs.ErrNoMemory
	}
	q := &qp{dev: d, events: spec.Events, deaf: spec.CreateFlags&verbs.QPBlockSelfMulticast != 0}
	c := ibta.Config{Device: &d.engine, Num: d.newQPN(), Type: spec.Type, PD: domain, Domain: xrc, SignalAll: spec.SignalAll, Owner: q,
		Caps: verbs.QPCap{MaxSendWR: spec.MaxSendWR, MaxRecvWR: spec.MaxRecvWR, MaxSendSGE: spec.MaxSendSGE,
			MaxRecvSGE: spec.MaxRecvSGE, MaxInline: spec.MaxInline}}
	if spec.SendCQ != nil {
		c.SendCQ = spec.SendCQ.(*cq).q
	}
	if spec.RecvCQ != nil {
		c.RecvCQ = spec.RecvCQ.(*cq).q
	}
	switch {
	case spec.SRQ != nil:
		c.Recv, c.Shared = &spec.SRQ.(*srq).queue, true
	case spec.Type <= verbs.UD:
		q.recv = ibta.RecvQueue{PD: domain, MaxWR: spec.MaxRecvWR, MaxSGE: spec.MaxRecvSGE}
		c.Recv = &q.recv
	}
	if spec.Type == verbs.UD {
		d.port.WantHeaders()
	}
	q.engine = ibta.New(c)
	d.qps[c.Num] = q
	return q, nil
}

func (q *qp) raise(t verbs.EventType) { q.events(t) }

func (q *qp) Num() verbs.QPN { return q.engine.Num }

func (q *qp) Modify(attr *verbs.QPAttr, mask verbs.QPMask) error {
	d := q.dev
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return verbs.ErrClosed
	}
	if err := checkDepth(attr, mask); err != nil {
		return err
	}
	d.settle(q)
	if mask&verbs.MaskState != 0 && attr.State == verbs.SQD {
		d.passNow = 0
		d.transmit(false) // what was posted before is not to wait for the program's next poll
	}
	path := q.engine.Path()
	err := q.engine.Modify(attr, mask)
	if path != q.engine.Path() {
		d.dropFlow(path)
	}
	d.kick(q)
	return err
}

// checkDepth holds a queue pair to the device's limits of READs and atomics.
func checkDepth(attr *verbs.QPAttr, mask verbs.QPMask) error {
	for _, c := range []struct {
		mask verbs.QPMask
		n    uint8
	}{{verbs.MaskMaxRdAtomic, attr.MaxRdAtomic}, {verbs.MaskMaxDestRdAtomic, attr.MaxDestRdAtomic}} {
		if mask&c.mask != 0 && c.n > maxAtomics {
			return &verbs.OpError{Op: "modify_qp", Err: verbs.ErrInvalid, Detail: fmt.Sprintf("%v is %d, the device has 0 to %d", c.mask, c.n, maxAtomics)}
		}
	}
	return nil
}

func (q *qp) Query() (verbs.QPAttr, verbs.QPCap) {
	q.dev.mu.Lock()
	defer q.dev.mu.Unlock()
	a := q.engine.Query()
	return a, a.Cap
}

func (q *qp) PostSend(wrs []verbs.SendWR) (int, error) {
	return inTurns(wrs, func(part []verbs.SendWR) (int, error) { return q.post(part, false) })
}

func (q *qp) PostSendAll(wrs []verbs.SendWR) error {
	_, err := q.post(wrs, true)
	return err
}

func (q *qp) post(wrs []verbs.SendWR, all bool) (int, error) {
	d := q.dev
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return 0, verbs.ErrClosed
	}
	n, err := q.engine.Post(wrs, all)
	if n > 0 {
		d.kick(q)
	}
	return n, err
}

func (q *qp) PostRecv(wrs []verbs.RecvWR) (int, error) { return inTurns(wrs, q.postRecv) }

func (q *qp) postRecv(wrs []verbs.RecvWR) (int, error) {
	d := q.dev
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return 0, verbs.ErrClosed
	}
	n, err := q.engine.PostRecv(wrs)
	if q.engine.State() == verbs.Err {
		d.deliverOutbox()
	}
	return n, err
}

func (q *qp) Destroy() error {
	d := q.dev
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(q.groups) > 0 {
		return &verbs.OpError{Op: "destroy_qp", Err: verbs.ErrBusy, Detail: "it is attached to a multicast group: detach it first"}
	}
	if d.closed {
		return nil
	}
	d.settle(q)
	path := q.engine.Path()
	q.engine.Destroy()
	d.unschedule(q)
	d.dropFlow(path)
	delete(d.qps, q.engine.Num)
	if d.last == q {
		d.last = nil
	}
	d.passNow = 0
	d.transmit(!d.leased.Load()) // others may have its room in the flow
	return nil
}

func (q *qp) AttachMulticast(gid verbs.GID, _ uint16) error {
	d := q.dev
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return verbs.ErrClosed
	}
	if q.engine.Type != verbs.UD || !gid.Addr().IsMulticast() {
		return &verbs.OpError{Op: "attach_mcast", Err: verbs.ErrInvalid, Detail: "needs a UD queue pair and a multicast GID"}
	}
	if slices.Contains(q.groups, gid) {
		return nil
	}
	if len(d.groups[gid]) == 0 {
		if err := d.port.JoinGroup(gid); err != nil {
			return err
		}
	}
	q.groups = append(q.groups, gid)
	d.groups[gid] = append(d.groups[gid], q)
	return nil
}

func (q *qp) DetachMulticast(gid verbs.GID, _ uint16) error {
	d := q.dev
	d.mu.Lock()
	defer d.mu.Unlock()
	i := slices.Index(q.groups, gid)
	if i < 0 {
		return &verbs.OpError{Op: "detach_mcast", Err: verbs.ErrInvalid, Detail: "the queue pair is not attached to the group"}
	}
	q.groups = slices.Delete(q.groups, i, i+1)
	members := d.groups[gid]
	members = slices.DeleteFunc(members, func(m *qp) bool { return m == q })
	if len(members) > 0 {
		d.groups[gid] = members
		return nil
	}
	delete(d.groups, gid)
	return d.port.LeaveGroup(gid)
}
