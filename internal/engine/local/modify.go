// SPDX-License-Identifier: Apache-2.0

package local

import (
	"github.com/ramjet-rdma/ramjet/internal/base/queue"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// Modify checks a change of attributes and applies it (IBTA 11.2.5.2). Attributes that nothing here
// uses, such as packet sequence numbers, are stored and returned.
func (q *QP) Modify(attr *verbs.QPAttr, mask verbs.QPMask) error {
	return q.Change(attr, mask,
		queue.Steps{Reset: q.reset, Fail: q.failByRequest, Prepare: q.prepareModify, Applied: q.modified})
}

// failByRequest takes the queue pair to ERR, after the peer's answers that have come.
func (q *QP) failByRequest() {
	if q.peer != nil {
		q.reap()
	}
	q.enterError()
}

// prepareModify checks a new address vector.
func (q *QP) prepareModify(attr *verbs.QPAttr, mask verbs.QPMask) error {
	if mask&verbs.MaskAH == 0 {
		return nil
	}
	if attr.AH.DGID.Addr().IsMulticast() {
		return &verbs.OpError{Op: "modify_qp", Err: verbs.ErrInvalid,
			Detail: "DGID " + attr.AH.DGID.String() + " is that of a multicast group: those are for UD queue pairs"}
	}
	return q.Device.Resolve(&attr.AH)
}

// modified tells the peer of the new state and rights.
func (q *QP) modified(verbs.QPState, verbs.QPMask) {
	if q.peer != nil {
		q.admit()
	}
	if q.absent {
		q.miss()
	}
	q.CheckDrained(q.begun())
}

// reset drops everything, without completions, as RESET does.
func (q *QP) reset() {
	if q.peer != nil {
		q.peer.admit(verbs.StateReset, 0)
		if q.off == 0 {
			q.peer.leave()
		}
		q.Part()
	}
	q.sq.Clear()
	q.reads.Clear()
	q.sendQueue = sendQueue{sq: q.sq, reads: q.reads}
	// and with it the answers that stop would leave to be given
	q.refusal, q.rings, q.absent, q.stalled = 0, false, false, 0
	q.stop()
	q.Reset()
}

// Destroy drops everything that the queue pair holds.
func (q *QP) Destroy() { q.reset() }

// stop forgets messages that have begun, both ways.
func (q *QP) stop() {
	q.initiator.stop()
	q.target.stop()
}
