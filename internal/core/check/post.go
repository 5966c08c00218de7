// SPDX-License-Identifier: Apache-2.0

package check

import (
	"slices"

	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/verbs/driver"
)

// PostSend posts work requests in the place of the program's.
func (d *Device) PostSend(qp *verbs.QP, wrs []verbs.SendWR, all bool) (int, error) {
	d.mu.Lock()
	q := d.known.qps[qp.Num()]
	if q == nil || q.qp != qp {
		d.used("ibv_post_send", qp)
		d.mu.Unlock()
		return postSend(qp, wrs, all)
	}
	d.mu.Unlock()
	d.c.flush()
	q.post.Lock()
	defer q.post.Unlock()
	own, requests := q.posting.begin(wrs)
	defer q.posting.end()
	place := at("It was posted")
	pd, _ := q.pd.(*verbs.PD)

	d.mu.Lock()
	for i := range own {
		wr := &own[i]
		r := d.spare.take()
		r.id, r.qp, r.op, r.signaled, r.posted = wr.ID, q, wr.Op, q.signals(wr), place
		d.checkSend(q, wr, r)
		if wr.Inline == nil {
			r.list = append(r.list, wr.SGL...)
			wr.SGL = r.list
			d.afterReads(q, wr, r)
			d.pieces(r, wr.SGL, pd, operations[wr.Op].results)
		}
		d.readsHeader(wr, r)
		if wr.Flags&verbs.Fence != 0 {
			q.fence()
		}
		d.add(r)
		if r.reads() {
			d.depth(q, r)
		}
		d.c.history.post(endpoint{d, qp.Num()}, wr, r)
		d.rebind(wr, place)
		wr.ID = r.token
		requests[i] = r
		if n := len(q.sends); n > 0 {
			r.share(q.sends[n-1], d.c.copied.now())
		}
		q.sends = append(q.sends, r)
	}
	d.mu.Unlock()
	for i, r := range requests {
		if i > 0 {
			r.share(requests[i-1], d.c.copied.now())
		}
		d.seal(r)
	}

	n, err := postSend(qp, own, all)

	d.mu.Lock()
	defer d.mu.Unlock()
	if n < len(requests) {
		d.c.history.unposted(endpoint{d, qp.Num()}, requests[n:])
		d.unposted(requests[n:])
		q.sends = slices.DeleteFunc(q.sends, func(r *request) bool { return slices.Contains(requests[n:], r) })
	}
	if n > 0 {
		d.postedSends(q, own[:n], place) // another thread may have polled the completions of the requests
	}
	return n, err
}

// postSend has the driver post work requests.
func postSend(qp *verbs.QP, wrs []verbs.SendWR, all bool) (int, error) {
	drv := driver.QPOf(qp)
	if !all {
		return drv.PostSend(wrs)
	}
	if err := drv.PostSendAll(wrs); err != nil {
		return 0, err
	}
	return len(wrs), nil
}

// signals reports whether a work request has a completion if it succeeds.
func (q *queuePair) signals(wr *verbs.SendWR) bool {
	return q.init.SignalAll || wr.Flags&verbs.Signaled != 0
}

// PostRecv posts receives in the place of the program's.
func (d *Device) PostRecv(qp *verbs.QP, srq *verbs.SRQ, wrs []verbs.RecvWR) (int, error) {
	var q *queuePair
	var queue *recvQueue
	var owner any
	d.mu.Lock()
	if qp != nil {
		if q = d.known.qps[qp.Num()]; q != nil && q.qp == qp {
			queue, owner = &q.recvs, q.pd
		} else {
			d.used("ibv_post_recv", qp)
		}
	} else {
		d.used("ibv_post_srq_recv", srq)
		if queue = d.known.srqs[srq]; queue != nil {
			owner = d.known.all[srq].pd
		}
	}
	d.mu.Unlock()
	if queue == nil {
		return postRecv(qp, srq, wrs)
	}
	queue.post.Lock()
	defer queue.post.Unlock()
	own, requests := queue.posting.begin(wrs)
	defer queue.posting.end()
	place := at("It was posted")
	pd, _ := owner.(*verbs.PD)

	d.mu.Lock()
	for i := range own {
		wr := &own[i]
		r := d.spare.take()
		r.id, r.qp, r.recvs, r.length, r.posted = wr.ID, q, queue, listed(wr.SGL), place
		d.checkRecv(q, queue, owner, wr, place)
		r.list = append(r.list, wr.SGL...)
		wr.SGL = r.list
		d.pieces(r, wr.SGL, pd, true)
		queue.count++
		if qp != nil {
			r.seq = queue.count
		}
		d.c.history.postRecv(d, r)
		d.add(r)
		wr.ID = r.token
		requests[i] = r
		queue.recvs[r.token] = r
	}
	d.mu.Unlock()
	for _, r := range requests {
		d.seal(r)
	}

	n, err := postRecv(qp, srq, own)

	d.mu.Lock()
	defer d.mu.Unlock()
	for _, r := range requests[n:] {
		delete(queue.recvs, r.token)
	}
	queue.count -= uint64(d.unposted(requests[n:]))
	if n > 0 {
		d.postedRecvs(q, place)
	}
	return n, err
}

// unposted removes work requests that were not posted, and returns how many. Others have ended with their queue, which
// another thread has destroyed.
func (d *Device) unposted(all []*request) (n int) {
	for _, r := range all {
		if d.posted[r.token] == r {
			d.remove(r)
			n++
		}
	}
	return n
}

// postRecv has the driver post receives.
func postRecv(qp *verbs.QP, srq *verbs.SRQ, wrs []verbs.RecvWR) (int, error) {
	if qp != nil {
		return driver.QPOf(qp).PostRecv(wrs)
	}
	return driver.SRQOf(srq).PostRecv(wrs)
}

// Polled ends the work requests of completions, and has the completions name them as the program does.
func (d *Device) Polled(cq *verbs.CQ, wcs []verbs.WC) {
	d.c.flush()
	d.mu.Lock()
	c := d.known.cqs[cq]
	if c != nil {
		c.polls++
	}
	if len(wcs) == 0 {
		d.mu.Unlock()
		return
	}
	var ends []ending
	if c != nil {
		ends, c.ends = c.ends, nil // another goroutine that polls makes its own
	}
	for i := range wcs {
		ends = d.complete(&wcs[i], ends)
	}
	for _, e := range ends {
		d.unprotect(e.request)
	}
	d.mu.Unlock()
	if len(ends) == 0 {
		return
	}
	d.c.history.polled(d, ends)
	var last lastSum
	for _, e := range ends {
		d.verify(e.request, e.received, &last)
		d.deliver(e.request, e.received)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, e := range ends {
		if e.headed() {
			d.keepGRH(e.request)
		}
		d.release(e.request)
		if !e.early { // otherwise its completion is still to be polled
			d.recycle(e.request)
		}
	}
	if c != nil {
		clear(ends)
		c.ends = ends[:0]
	}
}
