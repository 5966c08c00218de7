// SPDX-License-Identifier: Apache-2.0

package rdmap

import "github.com/ramjet-rdma/ramjet/verbs"

// Modify checks a change of attributes and applies it (IBTA 11.2.5.2). Attributes that iWARP does
// not use, such as packet sequence numbers, are stored and returned.
func (q *QP) Modify(attr *verbs.QPAttr, mask verbs.QPMask) error {
	next, err := q.CheckModify(attr, mask)
	if err != nil {
		return err
	}
	switch next {
	case verbs.StateReset:
		q.reset()
		return nil
	case verbs.StateError:
		q.enterError()
		return nil
	}
	if mask&verbs.MaskAH != 0 {
		if err := q.Device.Resolve(&attr.AH); err != nil {
			return err
		}
	}
	q.Apply(attr, mask, next)
	q.checkDrained()
	return nil
}

// reset drops everything, without completions, as RESET does.
func (q *QP) reset() {
	q.sq.Clear()
	q.reads.Clear()
	q.sendQueue = sendQueue{sq: q.sq, reads: q.reads}
	q.tx.stop()
	q.rx.stop()
	q.terminateMsg, q.closing, q.up = nil, false, false
	q.Reset()
}

// Destroy drops everything that the queue pair holds.
func (q *QP) Destroy() { q.reset() }

// checkDrained raises the event when the send queue has drained in SQD.
func (q *QP) checkDrained() {
	if q.Draining() && q.next == 0 && (q.sq.Len() == 0 || !q.sq.Front().begun) {
		q.Drained()
	}
}
