// SPDX-License-Identifier: Apache-2.0

package ibta

import "github.com/ramjet-rdma/ramjet/verbs"

// Modify checks a change of attributes and applies it (IBTA 11.2.5.2).
func (q *QP) Modify(attr *verbs.QPAttr, mask verbs.QPMask) error {
	next, err := q.CheckModify(attr, mask)
	if err != nil {
		return err
	}
	switch next {
	case verbs.Reset:
		q.reset()
		return nil
	case verbs.Err:
		q.enterError()
		return nil
	}
	if mask&verbs.MaskAH != 0 {
		to := attr.AH
		if to.Port == 0 {
			if to.Port = q.Port().Num; mask&verbs.MaskPort != 0 {
				to.Port = attr.Port
			}
		}
		path, err := q.Device.Resolve(to)
		if err != nil {
			return err
		}
		q.setPath(path)
	}
	before := q.State()
	q.Apply(attr, mask, next)
	switch {
	case next == verbs.RTR && before == verbs.Init:
		q.resp.start(q.Attr().RQPSN)
	case next == verbs.RTS && before == verbs.RTR:
		q.req.start(q.Attr().SQPSN)
	}
	q.checkDrained()
	return nil
}

// reset drops everything, without completions, as RESET does.
func (q *QP) reset() {
	q.stopRequester()
	q.clearReorder()
	q.req, q.resp = requester{sq: q.req.sq}, responder{}
	q.req.sq.Clear()
	q.setPath(nil)
	q.Reset()
}

// setPath changes the peer's address; the flow to it counts its users.
func (q *QP) setPath(path *Vector) {
	q.leaveFlow()
	if q.path != nil {
		q.path.Flow.quit(q)
		q.path.Flow.users--
	}
	if q.path = path; path != nil {
		path.Flow.users++
	}
}

// Destroy drops everything that the queue pair holds.
func (q *QP) Destroy() { q.reset() }

// checkDrained raises the event when the send queue has drained in SQD.
func (q *QP) checkDrained() {
	if r := &q.req; q.Draining() && r.next == 0 && (r.sq.Len() == 0 || !q.begun(r.sq.Front())) {
		q.Drained()
	}
}
