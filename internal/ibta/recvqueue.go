// SPDX-License-Identifier: Apache-2.0

package ibta

import (
	"github.com/ramjet-rdma/ramjet/internal/queue"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// RecvQueue holds posted receives.
type RecvQueue = queue.RecvQueue

// Domain is an XRC domain: the shared receive queues that its target queue pairs reach.
type Domain struct{ Queues map[uint32]*RecvQueue }

// PostRecv posts receives to the queue pair's own queue.
func (q *QP) PostRecv(wrs []verbs.RecvWR) (int, error) {
	if q.Recv == nil || q.Shared {
		return 0, &verbs.OpError{Op: "post_recv", Err: verbs.ErrInvalid, Detail: "the queue pair has no receive queue of its own"}
	}
	if q.state == verbs.Reset {
		return 0, &verbs.OpError{Op: "post_recv", Err: verbs.ErrState, Detail: "RESET"}
	}
	n, err := q.Recv.Post(wrs)
	if q.state == verbs.Err {
		q.flushReceives()
	}
	return n, err
}

// flushReceives completes all receives with WRFlushError, the one under way first. A
// shared receive queue keeps its receives and reports that q took its last one
// (IBTA 10.2.9.5).
func (q *QP) flushReceives() {
	if q.resp.msg.hasRecv {
		q.completeRecvError(verbs.WRFlushError)
	}
	if q.Recv == nil {
		return
	}
	if q.Shared {
		q.Device.Outbox.Raise(verbs.EventQPLastWQEReached, q.Owner)
		return
	}
	for q.Recv.Len() > 0 {
		q.Recv.Take(&q.resp.msg.recv)
		q.resp.msg.queue, q.resp.msg.hasRecv = q.Recv, true
		q.completeRecvError(verbs.WRFlushError)
	}
}
