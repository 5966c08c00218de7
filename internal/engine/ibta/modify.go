// SPDX-License-Identifier: Apache-2.0

package ibta

import (
	"github.com/ramjet-rdma/ramjet/internal/base/queue"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// Modify checks a change of attributes and applies it (IBTA 11.2.5.2).
func (q *QP) Modify(attr *verbs.QPAttr, mask verbs.QPMask) error {
	return q.Change(attr, mask,
		queue.Steps{Reset: q.reset, Fail: q.enterError, Prepare: q.prepareModify, Applied: q.modified})
}

// prepareModify resolves a new address vector.
func (q *QP) prepareModify(attr *verbs.QPAttr, mask verbs.QPMask) error {
	if mask&verbs.MaskAH == 0 {
		return nil
	}
	to := attr.AH
	if to.Port == 0 {
		if to.Port = q.Port().Num; mask&verbs.MaskPort != 0 {
			to.Port = attr.Port
		}
	}
	q.permitMarks(&to)
	av, err := q.lane.Resolve(to)
	if err != nil {
		return err
	}
	q.setAV(av)
	return nil
}

// modified lets both halves follow a change.
func (q *QP) modified(before verbs.QPState, mask verbs.QPMask) {
	q.req.limits = retryLimitsOf(q.Attr())
	q.share.packet = q.mtu() + q.overhead()
	if mask&verbs.MaskAH != 0 {
		q.controlOwn()
	}
	switch next := q.State(); {
	case next == verbs.StateRTR && before == verbs.StateInit:
		q.resp.start(q.Attr().RQPSN)
	case next == verbs.StateRTS && before == verbs.StateRTR:
		q.req.start(q.Attr().SQPSN)
	}
	q.checkDrained()
}

// reset drops everything, without completions, as RESET does.
func (q *QP) reset() {
	q.stopRequester()
	q.clearReorder()
	q.req, q.resp, q.timers = requester{sq: q.req.sq}, responder{}, timers{}
	q.req.sq.Clear()
	q.setAV(nil)
	q.share.own = nil
	q.Reset()
}

// setAV changes the peer's address; the flow to it counts its users.
func (q *QP) setAV(av *Vector) {
	q.leaveFlow()
	if q.av != nil {
		q.av.Flow.leave(&q.share)
	}
	if q.av = av; av != nil {
		av.Flow.join(&q.share)
	}
}

// Destroy drops everything that the queue pair holds.
func (q *QP) Destroy() { q.reset() }

// checkDrained raises the event when the send queue has drained in SQD.
func (q *QP) checkDrained() {
	r := &q.req
	q.CheckDrained(r.next > 0 || r.sq.Len() > 0 && q.begun(r.sq.Front()))
}
