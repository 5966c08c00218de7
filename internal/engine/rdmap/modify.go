// SPDX-License-Identifier: Apache-2.0

package rdmap

import (
	"github.com/ramjet-rdma/ramjet/internal/base/queue"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// Modify checks a change of attributes and applies it (IBTA 11.2.5.2). Attributes that iWARP does
// not use, such as packet sequence numbers, are stored and returned.
func (q *QP) Modify(attr *verbs.QPAttr, mask verbs.QPMask) error {
	return q.Change(attr, mask,
		queue.Steps{Reset: q.reset, Fail: q.enterError, Prepare: q.prepareModify, Applied: q.modified})
}

// prepareModify checks a new address vector.
func (q *QP) prepareModify(attr *verbs.QPAttr, mask verbs.QPMask) error {
	if mask&verbs.MaskAH == 0 {
		return nil
	}
	return q.Device.Resolve(&attr.AH)
}

func (q *QP) modified(verbs.QPState, verbs.QPMask) { q.CheckDrained(q.begun()) }

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
