// SPDX-License-Identifier: Apache-2.0

package softdev

import (
	"fmt"
	"sync/atomic"

	"github.com/ramjet-rdma/ramjet/internal/base/memory"
	"github.com/ramjet-rdma/ramjet/internal/base/queue"
	"github.com/ramjet-rdma/ramjet/internal/core/observe"
	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/verbs/driver"
)

// QP is the part of a queue pair that all fabrics have in common: the methods that programs call.
type QP struct {
	dev       *Device
	lane      *Lane // that moves its data
	protocol  Protocol
	self      QueuePair       // that it is part of
	Performs  Performer       // nil: every work request goes through the send queue
	recv      queue.RecvQueue // its own receives
	events    func(verbs.EventType)
	Peer      verbs.GID      // of the stream that it has or had; zero: its attributes say
	stats     verbs.QPStats  // as observers see them
	failure   *verbs.Failure // as they see it
	unsampled uint           // posts until the next one that is measured
	touched   bool           // in the list of queue pairs whose statistics may have changed
	numbers   ObjectNumbers  // the numbers of its objects, for observers
	listIndex int
	Capture   atomic.Pointer[observe.Ring] // gets its packets; nil: nobody looks
	ordinal   uint64                       // of the device's queue pairs, in the order of their creation
	injected  *verbs.Failure               // by a fault; nil: there was none
}

// ObjectNumbers has the numbers of the objects that a queue pair was made of; 0: none.
type ObjectNumbers struct{ domain, sendCQ, recvCQ, srq uint32 }

// NumbersOf returns the numbers of the objects that init names.
func NumbersOf(domain memory.PD, init *verbs.QPInit) ObjectNumbers {
	m := ObjectNumbers{domain: uint32(domain)}
	if init.SendCQ != nil {
		m.sendCQ = driver.CQOf(init.SendCQ).(*CQ).num
	}
	if init.RecvCQ != nil {
		m.recvCQ = driver.CQOf(init.RecvCQ).(*CQ).num
	}
	if init.SRQ != nil {
		m.srq = driver.SRQOf(init.SRQ).(*SRQ).info.Num
	}
	return m
}

// Init prepares the part in common of self, whose data a lane moves.
func (q *QP) Init(l *Lane, self QueuePair, p Protocol) {
	q.dev, q.lane, q.self, q.protocol = l.dev, l, self, p
}

func (q *QP) Common() *QP { return q }

// Receives returns the queue of receives that a specification asks for.
func (q *QP) Receives(init *verbs.QPInit, domain memory.PD) *queue.RecvQueue {
	if init.SRQ != nil {
		return &driver.SRQOf(init.SRQ).(*SRQ).Queue
	}
	q.recv = queue.RecvQueue{PD: domain, MaxWR: init.Cap.MaxRecvWR, MaxSGE: init.Cap.MaxRecvSGE}
	return &q.recv
}

func (p *pd) CreateQP(init *verbs.QPInit, events func(verbs.EventType)) (driver.QP, error) {
	return p.dev.AddQP(NumbersOf(p.num, init), events,
		func() (QueuePair, error) { return p.dev.fabric.NewQP(p.num, init) })
}

// AddQP adds the queue pair that make makes with the lock held.
func (d *Device) AddQP(of ObjectNumbers, events func(verbs.EventType),
	make func() (QueuePair, error)) (driver.QP, error) {
	d.Lock()
	defer d.Unlock()
	if d.Closed.Load() {
		return nil, verbs.ErrClosed
	}
	if err := d.refuses("create_qp", nil); err != nil {
		return nil, err
	}
	if err := d.Counts.queuePairs.Add(); err != nil {
		return nil, err
	}
	q, err := make()
	if err != nil {
		d.Counts.queuePairs.Remove()
		return nil, err
	}
	c := q.Common()
	d.nextQP++
	c.events, c.numbers, c.ordinal = events, of, d.nextQP
	d.view.Lock()
	d.QPs[q.Num()] = q
	c.protocol.Stats(&c.stats)
	d.objects.qps.Add(c)
	d.view.Unlock()
	c.lane.Touch(c)
	c.lane.Mu.Counted = true
	return q, nil
}

func (q *QP) raise(t verbs.EventType) { q.events(t) }

func (q *QP) Num() verbs.QPN { return q.protocol.Number() }

func (q *QP) Modify(attr *verbs.QPAttr, mask verbs.QPMask) error {
	l := q.lane
	if mask&verbs.MaskAH != 0 {
		if err := locate(l.dev.port, attr.AH.DGID); err != nil {
			return err
		}
	}
	l.Mu.Lock()
	defer l.Mu.Unlock()
	if l.dev.Closed.Load() {
		return verbs.ErrClosed
	}
	if err := l.dev.refuses("modify_qp", q); err != nil {
		return err
	}
	if err := checkDepth(attr, mask); err != nil {
		return err
	}
	if x := l.dev.faulty.Load(); x != nil && mask&verbs.MaskState != 0 && attr.State == verbs.StateReset {
		x.renewed(q)
	}
	l.NewTime()
	l.Touch(q)
	l.Mu.Counted = true
	return q.self.Change(attr, mask)
}

// checkDepth holds a queue pair to the device's limits of READs and atomics.
func checkDepth(attr *verbs.QPAttr, mask verbs.QPMask) error {
	for _, c := range []struct {
		mask verbs.QPMask
		n    uint8
	}{{verbs.MaskMaxRdAtomic, attr.MaxRdAtomic}, {verbs.MaskMaxDestRdAtomic, attr.MaxDestRdAtomic}} {
		if mask&c.mask != 0 && c.n > maxAtomics {
			return &verbs.OpError{Op: "modify_qp", Err: verbs.ErrInvalid,
				Detail: fmt.Sprintf("%v is %d, the device has 0 to %d", c.mask, c.n, maxAtomics)}
		}
	}
	return nil
}

func (q *QP) Query() verbs.QPAttr {
	q.lane.Mu.Lock()
	defer q.lane.Mu.Unlock()
	return q.protocol.Query()
}

// Failure returns why the queue pair failed.
func (q *QP) Failure() *verbs.Failure {
	q.lane.Mu.Lock()
	defer q.lane.Mu.Unlock()
	if f := q.protocol.Failure(); f != nil {
		return f
	}
	return q.injected
}

func (q *QP) PostSend(wrs []verbs.SendWR) (int, error) {
	if len(wrs) <= budgetPosts {
		return q.post(wrs, false)
	}
	return postInParts(wrs, func(part []verbs.SendWR) (int, error) { return q.post(part, false) })
}

func (q *QP) PostSendAll(wrs []verbs.SendWR) error {
	_, err := q.post(wrs, true)
	return err
}

func (q *QP) post(wrs []verbs.SendWR, all bool) (int, error) {
	l := q.lane
	l.Mu.Lock()
	defer l.Mu.Unlock()
	if l.dev.Closed.Load() {
		return 0, verbs.ErrClosed
	}
	l.Mu.later = l.polls.programPolls.Load()
	if x := l.dev.faulty.Load(); x != nil {
		return x.post(q, wrs, all)
	}
	at := q.sampled()
	if q.Performs != nil && len(wrs) == 1 && q.Performs.Perform(&wrs[0]) {
		if at != 0 {
			l.dev.recordLatency(queue.CompletesAs(wrs[0].Op), l.Now()-at)
		}
		return 1, nil
	}
	q.protocol.Sample(at)
	n, err := q.protocol.Post(wrs, all)
	if n == 0 { // it may have found that work requests before it are done
		l.Touch(q)
		l.Mu.Counted = true
		return n, err
	}
	l.NewTime()
	q.self.Posted()
	return n, err
}

func (q *QP) PostRecv(wrs []verbs.RecvWR) (int, error) { return postInParts(wrs, q.postRecv) }

func (q *QP) postRecv(wrs []verbs.RecvWR) (int, error) {
	l := q.lane
	l.Mu.Lock()
	defer l.Mu.Unlock()
	if l.dev.Closed.Load() {
		return 0, verbs.ErrClosed
	}
	if err := l.dev.refuses("post_recv", q); err != nil {
		return 0, err
	}
	n, err := q.protocol.PostRecv(wrs)
	q.self.Received()
	if q.protocol.State() == verbs.StateError {
		l.NewTime()
		l.Deliver()
	}
	return n, err
}

func (q *QP) Destroy() error {
	d := q.dev
	d.Lock()
	defer d.Unlock()
	if d.Closed.Load() {
		return nil
	}
	q.lane.NewTime()
	if err := q.self.Release(); err != nil {
		return err
	}
	if x := d.faulty.Load(); x != nil {
		x.renewed(q)
	}
	if in := d.injector(); in != nil {
		in.Forget(uint32(q.protocol.Number()))
	}
	d.view.Lock()
	delete(d.QPs, q.Num())
	d.objects.qps.Remove(q)
	d.view.Unlock()
	q.lane.Mu.Counted = true
	d.Counts.queuePairs.Remove()
	return nil
}

// The errors of multicast groups.
var (
	ErrAttached = &verbs.OpError{Op: "destroy_qp", Err: verbs.ErrBusy,
		Detail: "it is attached to a multicast group: detach it first"}
	ErrNotAttached = &verbs.OpError{Op: "detach_mcast", Err: verbs.ErrInvalid,
		Detail: "the queue pair is not attached to the group"}
)
