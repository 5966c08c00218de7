// SPDX-License-Identifier: Apache-2.0

package check

import (
	"fmt"

	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/verbs/driver"
)

// request is a work request from posting it until its completion has been polled, or that of a later one that says that
// it is done, too.
type request struct {
	id       uint64 // the program's
	token    uint64 // the device's
	qp       *queuePair
	recvs    *recvQueue // nil: it is a send
	op       verbs.SendOp
	signaled bool
	pieces   []piece
	posted   Place
}

// name says what it is.
func (r *request) name() string {
	if r.recvs != nil {
		return fmt.Sprintf("receive %#x", r.id)
	}
	return fmt.Sprintf("%v %#x", r.op, r.id)
}

// queue returns the name of the queue that it was posted to.
func (d *Device) queue(r *request) string {
	if r.recvs != nil && r.recvs.srq != nil {
		return d.nameOf(r.recvs.srq)
	}
	return d.nameOf(r.qp.qp)
}

// add gives a work request the ID that the device knows it by.
func (d *Device) add(r *request) {
	d.last++
	r.token = d.last
	d.posted[r.token] = r
	if c := d.completesAt(r); c != nil {
		c.outstanding++
	}
}

// completesAt returns the completion queue of a work request. Of a shared receive queue's receives it is not known, and of
// sends that are not signaled there is none if all goes well.
func (d *Device) completesAt(r *request) *completionQueue {
	switch {
	case r.qp == nil:
		return nil
	case r.recvs != nil:
		return d.known.cqs[r.qp.init.RecvCQ]
	case r.signaled:
		return d.known.cqs[r.qp.init.SendCQ]
	}
	return nil
}

// ended undoes add.
func (d *Device) ended(r *request) {
	delete(d.posted, r.token)
	if c := d.completesAt(r); c != nil {
		c.outstanding--
	}
}

// remove drops work requests that have no completion, or were not posted.
func (d *Device) remove(all []*request) {
	for _, r := range all {
		d.ended(r)
		d.bounce.release(r)
	}
}

// complete has a completion stand for the program's work request, and looks at the memory of all that it ends.
func (d *Device) complete(wc *verbs.WC) {
	r := d.posted[wc.ID]
	if r == nil {
		return
	}
	wc.ID = r.id
	if r.recvs != nil {
		delete(r.recvs.recvs, r.token)
		d.finish(r, wc.Status, wc.ByteLen)
		return
	}
	// A completion says of earlier work requests of its queue that they have succeeded, unless it is an error: then those
	// that were not signaled may have, too, and the others have completions of their own (IBTA 10.8.6).
	q := r.qp
	for i, e := range q.sends {
		if e == r {
			for _, e := range q.sends[:i] {
				d.finish(e, verbs.StatusSuccess, 0)
			}
			d.finish(r, wc.Status, wc.ByteLen)
			q.sends = append(q.sends[:0], q.sends[i+1:]...)
			return
		}
	}
}

// finish ends a work request: its memory is the program's again.
func (d *Device) finish(r *request, status verbs.Status, received uint32) {
	d.ended(r)
	d.verify(r)
	d.deliver(r, status, received)
	d.bounce.release(r)
}

// dropAll ends the work requests of a queue pair that is reset or destroyed.
func (d *Device) dropAll(q *queuePair) {
	d.remove(q.sends)
	q.sends, q.unsignald = nil, 0
	d.dropRecvs(&q.recvs)
}

func (d *Device) dropRecvs(q *recvQueue) {
	for _, r := range q.recvs {
		d.remove([]*request{r})
	}
	clear(q.recvs)
}

// unread reports a work request of a queue pair that failed, and whose completion nobody has polled.
func (d *Device) unread(qp *verbs.QP) {
	f := driver.QPOf(qp).Failure()
	if f == nil {
		return
	}
	r := d.posted[f.ID]
	if r == nil {
		return
	}
	d.c.Report(&Finding{CompletionErrorUnread, fmt.Sprintf("%s of %s ended with: %v.", r.name(), d.queue(r), f.Status),
		[]Place{r.posted, at("Its queue pair ended")}})
}
