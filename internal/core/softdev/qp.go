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

// qp is the part of a queue pair that all fabrics have in common: the methods that programs call.
type qp struct {
	dev       *Device
	lane      *lane // that moves its data
	protocol  protocol
	self      queuePair       // that it is part of
	performs  performer       // nil: every work request goes through the send queue
	recv      queue.RecvQueue // its own receives
	events    func(verbs.EventType)
	peer      verbs.GID      // of the stream that it has or had; zero: its attributes say
	stats     verbs.QPStats  // as observers see them
	failure   *verbs.Failure // as they see it
	unsampled uint           // posts until the next one that is measured
	touched   bool           // in the list of those whose statistics may have changed
	numbers   objectNumbers  // what it was made of, for observers
	listIndex int
	capture   atomic.Pointer[observe.Ring] // gets its packets; nil: nobody looks
	ordinal   uint64                       // of the device's queue pairs, in the order of their creation
	injected  *verbs.Failure               // by a fault; nil: there was none
}

// objectNumbers has the numbers of the objects that a queue pair was made of; 0: none.
type objectNumbers struct{ domain, sendCQ, recvCQ, srq uint32 }

// objectNumbersOf returns the numbers of what init names.
func objectNumbersOf(domain memory.PD, init *verbs.QPInit) objectNumbers {
	m := objectNumbers{domain: uint32(domain)}
	if init.SendCQ != nil {
		m.sendCQ = driver.CQOf(init.SendCQ).(*cq).num
	}
	if init.RecvCQ != nil {
		m.recvCQ = driver.CQOf(init.RecvCQ).(*cq).num
	}
	if init.SRQ != nil {
		m.srq = driver.SRQOf(init.SRQ).(*srq).info.Num
	}
	return m
}

// init prepares the part in common of self.
func (q *qp) init(d *Device, self queuePair, p protocol) {
	q.dev, q.lane, q.self, q.protocol = d, &d.lane, self, p
}

func (q *qp) common() *qp { return q }

// receives returns the queue of receives that a specification asks for.
func (q *qp) receives(init *verbs.QPInit, domain memory.PD) *queue.RecvQueue {
	if init.SRQ != nil {
		return &driver.SRQOf(init.SRQ).(*srq).queue
	}
	q.recv = queue.RecvQueue{PD: domain, MaxWR: init.Cap.MaxRecvWR, MaxSGE: init.Cap.MaxRecvSGE}
	return &q.recv
}

func (p *pd) CreateQP(init *verbs.QPInit, events func(verbs.EventType)) (driver.QP, error) {
	return p.dev.addQP(objectNumbersOf(p.num, init), events, func() (queuePair, error) { return p.dev.fabric.newQP(p.num, init) })
}

// addQP adds the queue pair that make makes with the lock held.
func (d *Device) addQP(of objectNumbers, events func(verbs.EventType), make func() (queuePair, error)) (driver.QP, error) {
	d.lane.mu.Lock()
	defer d.lane.mu.Unlock()
	if d.lane.closed {
		return nil, verbs.ErrClosed
	}
	if err := d.refuses("create_qp", nil); err != nil {
		return nil, err
	}
	if err := d.counts.queuePairs.add(); err != nil {
		return nil, err
	}
	q, err := make()
	if err != nil {
		d.counts.queuePairs.remove()
		return nil, err
	}
	c := q.common()
	d.nextQP++
	c.events, c.numbers, c.ordinal = events, of, d.nextQP
	d.view.Lock()
	d.qps[q.Num()] = q
	c.protocol.Stats(&c.stats)
	d.objects.qps.Add(c)
	d.view.Unlock()
	d.lane.touch(c)
	d.lane.mu.counted = true
	return q, nil
}

func (q *qp) raise(t verbs.EventType) { q.events(t) }

func (q *qp) Num() verbs.QPN { return q.protocol.Number() }

func (q *qp) Modify(attr *verbs.QPAttr, mask verbs.QPMask) error {
	l := q.lane
	if mask&verbs.MaskAH != 0 {
		if err := locate(l.dev.port, attr.AH.DGID); err != nil {
			return err
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
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
	l.newTime()
	l.touch(q)
	l.mu.counted = true
	return q.self.change(attr, mask)
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

func (q *qp) Query() verbs.QPAttr {
	q.lane.mu.Lock()
	defer q.lane.mu.Unlock()
	return q.protocol.Query()
}

// Failure returns why the queue pair failed.
func (q *qp) Failure() *verbs.Failure {
	q.lane.mu.Lock()
	defer q.lane.mu.Unlock()
	if f := q.protocol.Failure(); f != nil {
		return f
	}
	return q.injected
}

func (q *qp) PostSend(wrs []verbs.SendWR) (int, error) {
	if len(wrs) <= budgetPosts {
		return q.post(wrs, false)
	}
	return postInParts(wrs, func(part []verbs.SendWR) (int, error) { return q.post(part, false) })
}

func (q *qp) PostSendAll(wrs []verbs.SendWR) error {
	_, err := q.post(wrs, true)
	return err
}

func (q *qp) post(wrs []verbs.SendWR, all bool) (int, error) {
	l := q.lane
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return 0, verbs.ErrClosed
	}
	l.mu.later = l.polls.programPolls.Load()
	if x := l.dev.faulty.Load(); x != nil {
		return x.post(q, wrs, all)
	}
	at := q.sampled()
	if q.performs != nil && len(wrs) == 1 && q.performs.perform(&wrs[0]) {
		if at != 0 {
			l.dev.recordLatency(queue.CompletesAs(wrs[0].Op), l.now()-at)
		}
		return 1, nil
	}
	q.protocol.Sample(at)
	n, err := q.protocol.Post(wrs, all)
	if n > 0 {
		l.newTime()
		q.self.posted()
	}
	return n, err
}

func (q *qp) PostRecv(wrs []verbs.RecvWR) (int, error) { return postInParts(wrs, q.postRecv) }

func (q *qp) postRecv(wrs []verbs.RecvWR) (int, error) {
	l := q.lane
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return 0, verbs.ErrClosed
	}
	if err := l.dev.refuses("post_recv", q); err != nil {
		return 0, err
	}
	n, err := q.protocol.PostRecv(wrs)
	q.self.received()
	if q.protocol.State() == verbs.StateError {
		l.newTime()
		l.deliver()
	}
	return n, err
}

func (q *qp) Destroy() error {
	d := q.dev
	d.lane.mu.Lock()
	defer d.lane.mu.Unlock()
	if d.lane.closed {
		return nil
	}
	d.lane.newTime()
	if err := q.self.release(); err != nil {
		return err
	}
	if x := d.faulty.Load(); x != nil {
		x.destroyed(q)
	}
	d.view.Lock()
	delete(d.qps, q.Num())
	d.objects.qps.Remove(q)
	d.view.Unlock()
	d.lane.mu.counted = true
	d.counts.queuePairs.remove()
	return nil
}

// What queue pairs return about multicast groups.
var (
	errAttached    = &verbs.OpError{Op: "destroy_qp", Err: verbs.ErrBusy, Detail: "it is attached to a multicast group: detach it first"}
	errNotAttached = &verbs.OpError{Op: "detach_mcast", Err: verbs.ErrInvalid, Detail: "the queue pair is not attached to the group"}
)
