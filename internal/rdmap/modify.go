// SPDX-License-Identifier: Apache-2.0

package rdmap

import "github.com/ramjet-rdma/ramjet/verbs"

// Modify checks a change of attributes and carries it out (IBTA 11.2.5.2). The attributes
// that iWARP has no use for, such as packet sequence numbers, are kept and given back.
func (q *QP) Modify(attr *verbs.QPAttr, mask verbs.QPMask) error {
	next, err := verbs.CheckTransition(verbs.RC, q.state, attr, mask)
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
	if err := q.apply(attr, mask); err != nil {
		return err
	}
	if next == verbs.SQD && q.state != verbs.SQD {
		q.draining = attr.SQDAsyncNotify || mask&verbs.MaskSQDAsyncNotify == 0
	}
	q.state = next
	q.checkDrained()
	return nil
}

// apply sets the attributes that mask names.
func (q *QP) apply(attr *verbs.QPAttr, mask verbs.QPMask) error {
	switch {
	case mask&verbs.MaskPort != 0 && attr.Port != 1:
		return &verbs.OpError{Op: "modify_qp", Err: verbs.ErrInvalid, Detail: "Port: the device has port 1 only"}
	case mask&verbs.MaskPathMTU != 0 && attr.PathMTU.Bytes() > q.Device.MTU:
		return &verbs.OpError{Op: "modify_qp", Err: verbs.ErrInvalid, Detail: "PathMTU is larger than the port's active MTU"}
	case mask&verbs.MaskPKeyIndex != 0 && int(attr.PKeyIndex) >= q.Device.PKeys:
		return &verbs.OpError{Op: "modify_qp", Err: verbs.ErrInvalid, Detail: "PKeyIndex is beyond the P_Key table"}
	}
	if mask&verbs.MaskAH != 0 {
		if err := q.Device.Resolve(&attr.AH); err != nil {
			return err
		}
	}
	old := q.attr
	q.attr = *attr
	keep(mask, verbs.MaskAccess, &q.attr.Access, old.Access)
	keep(mask, verbs.MaskPKeyIndex, &q.attr.PKeyIndex, old.PKeyIndex)
	keep(mask, verbs.MaskPort, &q.attr.Port, old.Port)
	keep(mask, verbs.MaskQKey, &q.attr.QKey, old.QKey)
	keep(mask, verbs.MaskAH, &q.attr.AH, old.AH)
	keep(mask, verbs.MaskPathMTU, &q.attr.PathMTU, old.PathMTU)
	keep(mask, verbs.MaskTimeout, &q.attr.Timeout, old.Timeout)
	keep(mask, verbs.MaskRetryCount, &q.attr.RetryCount, old.RetryCount)
	keep(mask, verbs.MaskRNRRetry, &q.attr.RNRRetry, old.RNRRetry)
	keep(mask, verbs.MaskRQPSN, &q.attr.RQPSN, old.RQPSN)
	keep(mask, verbs.MaskSQPSN, &q.attr.SQPSN, old.SQPSN)
	keep(mask, verbs.MaskMaxRdAtomic, &q.attr.MaxRdAtomic, old.MaxRdAtomic)
	keep(mask, verbs.MaskMaxDestRdAtomic, &q.attr.MaxDestRdAtomic, old.MaxDestRdAtomic)
	keep(mask, verbs.MaskMinRNRTimer, &q.attr.MinRNRTimer, old.MinRNRTimer)
	keep(mask, verbs.MaskDestQPN, &q.attr.DestQPN, old.DestQPN)
	keep(mask, verbs.MaskRateLimit, &q.attr.RateLimit, old.RateLimit)
	return nil
}

// keep puts an attribute back that the mask does not name.
func keep[T any](mask, bit verbs.QPMask, to *T, old T) {
	if mask&bit == 0 {
		*to = old
	}
}

// reset drops everything, without completions, as RESET does.
func (q *QP) reset() {
	for _, cq := range []interface{ Forget(verbs.QPN) }{q.SendCQ, q.RecvCQ} {
		cq.Forget(q.Num)
	}
	if !q.Shared {
		q.Recv.Clear()
	}
	q.sq.Clear()
	q.sendQueue = sendQueue{sq: q.sq, reads: q.reads}
	q.reads.Clear()
	q.tx.stop()
	q.rx.stop()
	q.rx.hasRecv = false
	q.attr, q.state, q.term, q.fin, q.up = verbs.QPAttr{}, verbs.Reset, nil, false, false
}

// Destroy drops everything that the queue pair holds.
func (q *QP) Destroy() { q.reset() }

// checkDrained raises the event when the send queue has drained in SQD.
func (q *QP) checkDrained() {
	if q.state == verbs.SQD && q.draining && q.next == 0 && (q.sq.Len() == 0 || !q.sq.Front().begun) {
		q.draining = false
		q.Device.Outbox.Raise(verbs.EventSQDrained, q.Owner)
	}
}
