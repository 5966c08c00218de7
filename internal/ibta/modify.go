// SPDX-License-Identifier: Apache-2.0

package ibta

import (
	"github.com/ramjet-rdma/ramjet/verbs"
)

// Modify checks a change of attributes and carries it out (IBTA 11.2.5.2).
func (q *QP) Modify(attr *verbs.QPAttr, mask verbs.QPMask) error {
	next, err := verbs.CheckTransition(q.Type, q.state, attr, mask)
	if err != nil {
		return err
	}
	if next == verbs.Reset {
		q.reset()
		return nil
	}
	if next == verbs.Err {
		q.enterError()
		return nil
	}
	if err := q.apply(attr, mask); err != nil {
		return err
	}
	switch {
	case next == verbs.RTR && q.state == verbs.Init:
		q.resp.start(q.attr.RQPSN)
	case next == verbs.RTS && q.state == verbs.RTR:
		q.req.start(q.attr.SQPSN)
	case next == verbs.SQD && q.state != verbs.SQD:
		q.req.draining = attr.SQDAsyncNotify || mask&verbs.MaskSQDAsyncNotify == 0
	}
	q.state = next
	q.checkDrained()
	return nil
}

// apply sets the attributes that mask names.
func (q *QP) apply(attr *verbs.QPAttr, mask verbs.QPMask) error {
	if mask&verbs.MaskPort != 0 && attr.Port != 1 {
		return &verbs.OpError{Op: "modify_qp", Err: verbs.ErrInvalid, Detail: "Port: the device has port 1 only"}
	}
	if mask&verbs.MaskPathMTU != 0 && attr.PathMTU.Bytes() > q.Device.MTU {
		return &verbs.OpError{Op: "modify_qp", Err: verbs.ErrInvalid, Detail: "PathMTU is larger than the port's active MTU"}
	}
	if mask&verbs.MaskPKeyIndex != 0 {
		if int(attr.PKeyIndex) >= len(q.Device.PKeys) {
			return &verbs.OpError{Op: "modify_qp", Err: verbs.ErrInvalid, Detail: "PKeyIndex is beyond the P_Key table"}
		}
		q.pkey = q.Device.PKeys[attr.PKeyIndex]
		q.attr.PKeyIndex = attr.PKeyIndex
	}
	if mask&verbs.MaskAH != 0 {
		path, err := q.Device.Resolve(attr.AH)
		if err != nil {
			return err
		}
		q.setPath(path)
		q.attr.AH = attr.AH
	}
	for _, f := range []struct {
		mask verbs.QPMask
		set  func()
	}{
		{verbs.MaskPort, func() { q.attr.Port = attr.Port }},
		{verbs.MaskAccess, func() { q.attr.Access = attr.Access }},
		{verbs.MaskQKey, func() { q.attr.QKey = attr.QKey }},
		{verbs.MaskPathMTU, func() { q.attr.PathMTU = attr.PathMTU }},
		{verbs.MaskTimeout, func() { q.attr.Timeout = attr.Timeout }},
		{verbs.MaskRetryCount, func() { q.attr.RetryCount = attr.RetryCount }},
		{verbs.MaskRNRRetry, func() { q.attr.RNRRetry = attr.RNRRetry }},
		{verbs.MaskRQPSN, func() { q.attr.RQPSN = attr.RQPSN }},
		{verbs.MaskSQPSN, func() { q.attr.SQPSN = attr.SQPSN }},
		{verbs.MaskMaxRdAtomic, func() { q.attr.MaxRdAtomic = attr.MaxRdAtomic }},
		{verbs.MaskMaxDestRdAtomic, func() { q.attr.MaxDestRdAtomic = attr.MaxDestRdAtomic }},
		{verbs.MaskMinRNRTimer, func() { q.attr.MinRNRTimer = attr.MinRNRTimer }},
		{verbs.MaskDestQPN, func() { q.attr.DestQPN = attr.DestQPN }},
	} {
		if mask&f.mask != 0 {
			f.set()
		}
	}
	return nil
}

// reset drops everything, without completions, as RESET does.
func (q *QP) reset() {
	q.stopRequester()
	q.forgetEarly()
	if q.SendCQ != nil {
		q.SendCQ.Forget(q.Num)
	}
	if q.RecvCQ != nil {
		q.RecvCQ.Forget(q.Num)
	}
	if q.Recv != nil && !q.Shared {
		q.Recv.Clear()
	}
	q.req, q.resp = requester{sq: q.req.sq}, responder{}
	q.req.sq.Clear()
	q.setPath(nil)
	q.attr, q.state = verbs.QPAttr{}, verbs.Reset
}

// setPath changes the peer's address; the flow to it counts its users.
func (q *QP) setPath(path *Vector) {
	q.leaveFlow()
	if q.path != nil {
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
	if q.state != verbs.SQD || !q.req.draining {
		return
	}
	if r := &q.req; r.next == 0 && (r.sq.Len() == 0 || !q.begun(r.sq.Front())) {
		q.req.draining = false
		q.Device.Outbox.Raise(verbs.EventSQDrained, q.Owner)
	}
}
