// SPDX-License-Identifier: Apache-2.0

package check

import (
	"fmt"
	"math"
	"slices"

	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/verbs/driver"
)

// request is a work request from posting it until its completion has been polled, or that of a later one that says that
// it is done, too. Then it is used again for another: see Device.recycle.
type request struct {
	id       uint64 // the program's
	token    uint64 // the device's
	qp       *queuePair
	recvs    *recvQueue // nil: it is a send
	op       verbs.SendOp
	signaled bool
	early    bool        // it has ended, and its completion is still to be polled
	fenced   bool        // READ, atomic: a work request with a fence is behind it
	reported bool        // that its data was announced before it had come
	list     []verbs.SGE // as the device gets it
	length   int         // of a receive: what its list takes
	touched  bool        // the program has, and that is reported
	direct   bool        // the device writes to memory of the program
	answered bool        // its memory has been looked at, as its peer has sent something since
	pieces   []piece
	sums     []uint64 // of parts of its pieces
	lent     []*chunk // of READs before it, from which it sends
	left     *Finding // that a region of it has gone, before its flush was polled
	posted   Place
	noted    *posted // in the history; nil: it is of no interest there
	seq      uint64  // of a queue pair's receive: how many were posted with it
}

// recycle keeps a work request, which nothing refers to any more, for another one.
func (d *Device) recycle(r *request) {
	clear(r.pieces)
	*r = request{list: r.list[:0], pieces: r.pieces[:0], sums: r.sums[:0]}
	d.spare.give(r)
}

// name says what it is.
func (r *request) name() string {
	if r.recvs != nil {
		return fmt.Sprintf("receive %#x", r.id)
	}
	return fmt.Sprintf("%v %#x", r.op, r.id)
}

// reads reports whether it is a READ or an atomic.
func (r *request) reads() bool { return r.recvs == nil && operations[r.op].results }

// queue returns the name of the queue that it was posted to.
func (d *Device) queue(r *request) string {
	if r.recvs != nil && r.recvs.srq != nil {
		return d.nameOf(r.recvs.srq)
	}
	return d.nameOf(r.qp.qp)
}

// named is the ID that the device has for a work request, and the program's.
type named struct{ token, id uint64 }

// lately is how many work requests that have ended are still known by the device's ID: failures name them.
const lately = 256

// add gives a work request the ID that the device knows it by: its own, unless another one has that.
func (d *Device) add(r *request) {
	r.token = r.id
	for d.posted[r.token] != nil {
		d.last++
		r.token = d.last | 1<<63
	}
	d.posted[r.token] = r
	if r.reads() {
		d.reads++
	}
	if c := d.completesAt(r); c != nil {
		c.outstanding++
	}
}

// completesAt returns the completion queue of a work request. Of a shared receive queue's receives it is not known, and
// of sends that are not signaled there is none if all goes well.
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
	if r.token != r.id {
		d.lately[r.token%lately] = named{r.token, r.id}
	}
	if r.reads() {
		d.reads--
	}
	if c := d.completesAt(r); c != nil {
		c.outstanding--
	}
}

// remove drops work requests that have no completion, or were not posted.
func (d *Device) remove(all ...*request) {
	for _, r := range all {
		d.ended(r)
		d.unprotect(r)
		d.release(r)
	}
}

// ending is a work request that has ended, and how many bytes of its memory are the device's.
type ending struct {
	*request
	received int
	wc       *verbs.WC
}

// headed reports whether the bytes begin with a GRH.
func (e *ending) headed() bool {
	return e.recvs != nil && e.received > 0 && e.wc.Flags&verbs.WithGRH != 0
}

// complete has a completion name its work request as the program does, and appends the work requests that it ends.
func (d *Device) complete(wc *verbs.WC, ends []ending) []ending {
	r := d.posted[wc.ID]
	if r == nil || r.qp != nil && r.qp.qp.Num() != wc.QPN {
		return ends
	}
	wc.ID = r.id
	if wc.Status == verbs.StatusWRFlushError && r.qp != nil {
		d.refused(r.qp)
		d.flushed(r)
	}
	d.ended(r)
	q := r.qp
	switch {
	case r.recvs != nil:
		delete(r.recvs.recvs, r.token)
		received := 0
		if wc.Status == verbs.StatusSuccess && wc.Op == verbs.WCRecv { // not where a WRITE has gone
			received = int(wc.ByteLen)
		}
		if q := d.known.qps[wc.QPN]; q != nil {
			d.answered(q)
		}
		return append(ends, ending{r, received, wc})
	case r.early:
		q.early = slices.DeleteFunc(q.early, func(e *request) bool { return e == r })
		return ends
	}
	i := slices.Index(q.sends, r)
	if i < 0 {
		return ends
	}
	// A completion says of earlier work requests of its queue that they have succeeded, unless it is an error: then
	// those that were not signaled may have, too, and the others have completions of their own (IBTA 10.8.6).
	d.notReady(q, i)
	failed := wc.Status != verbs.StatusSuccess
	q.flushes = q.flushes || wc.Status == verbs.StatusWRFlushError
	q.failed = q.failed || failed && wc.Status != verbs.StatusWRFlushError
	left := q.sends[:0]
	for _, e := range q.sends[:i] {
		if e.signaled {
			if failed {
				left = append(left, e)
				continue
			}
			e.early = true
			q.early = append(q.early, e)
		} else {
			d.ended(e)
		}
		ends = append(ends, ending{e, math.MaxInt, wc})
	}
	rest := q.sends[i+1:]
	n := len(q.sends)
	q.sends = append(left, rest...)
	clear(q.sends[len(q.sends):n])
	if failed {
		return append(ends, ending{r, 0, wc})
	}
	return append(ends, ending{r, math.MaxInt, wc})
}

// dropAll ends the work requests of a queue pair that is reset or destroyed.
func (d *Device) dropAll(q *queuePair) {
	d.remove(q.sends...)
	d.remove(q.early...)
	q.sends, q.early, q.unsignaled, q.flushes, q.failed = nil, nil, 0, false, false
	d.dropRecvs(&q.recvs)
}

func (d *Device) dropRecvs(q *recvQueue) {
	for _, r := range q.recvs {
		d.remove(r)
	}
	clear(q.recvs)
	q.count = 0
}

// unread reports a work request of a queue pair that failed, and whose completion nobody has polled.
func (d *Device) unread(qp *verbs.QP) {
	d.unreadFlush(qp)
	f := driver.QPOf(qp).Failure()
	if f == nil || f.Side != verbs.FailedSend && f.Side != verbs.FailedRecv {
		return
	}
	r := d.posted[f.ID]
	if r == nil || r.qp == nil || r.qp.qp != qp || (r.recvs != nil) != (f.Side == verbs.FailedRecv) {
		return
	}
	d.report(r.qp, &Finding{CompletionErrorUnread,
		fmt.Sprintf("%s of %s ended with: %v.", r.name(), d.queue(r), f.Status),
		[]Place{r.posted, at("Its queue pair ended")}})
}

// unreadFlush reports a send that was flushed, of a queue pair that the program has stopped, if others were polled. Who
// polls nothing any more, or has seen why a queue pair stopped, may give the sends up. Receives are flushed whenever a
// connection ends.
func (d *Device) unreadFlush(qp *verbs.QP) {
	q := d.known.qps[qp.Num()]
	if q == nil || q.qp != qp || q.state != verbs.StateError || !q.flushes || q.failed {
		return
	}
	i := slices.IndexFunc(q.sends, func(r *request) bool { return r.signaled })
	if i < 0 {
		return
	}
	d.c.Report(&Finding{CompletionErrorUnread,
		fmt.Sprintf("%s of %s was flushed, and so were others, whose completions were polled.",
			q.sends[i].name(), d.nameOf(qp)), []Place{q.sends[i].posted, at("Its queue pair ended")}})
}

// Name has a failure name its work request as the program does.
func (d *Device) Name(f *verbs.Failure) *verbs.Failure {
	if f == nil || f.ID>>63 == 0 {
		return f
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	own := *f
	if r := d.posted[f.ID]; r != nil {
		own.ID = r.id
	} else if e := d.lately[f.ID%lately]; e.token == f.ID {
		own.ID = e.id
	}
	return &own
}
