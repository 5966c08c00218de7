// SPDX-License-Identifier: Apache-2.0

package ibta

import (
	"github.com/ramjet-rdma/ramjet/internal/memory"
	"github.com/ramjet-rdma/ramjet/internal/queue"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// recvWQE is a receive that is posted.
type recvWQE struct {
	id  uint64
	sgl []verbs.SGE
}

// RecvQueue holds posted receives: of one queue pair, or shared by several.
type RecvQueue struct {
	PD     memory.PD
	MaxWR  int
	MaxSGE int

	// Of a shared receive queue.
	Shared bool
	Limit  int       // event once fewer receives are posted; 0: off
	Num    uint32    // XRC: the number that senders name
	CQ     *queue.CQ // XRC: where receives complete
	Owner  any       // the device's own

	ring queue.Ring[recvWQE]
}

// Domain is an XRC domain: the shared receive queues that its target queue pairs reach.
type Domain struct{ Queues map[uint32]*RecvQueue }

// Post adds receives in order and returns how many.
func (r *RecvQueue) Post(wrs []verbs.RecvWR) (int, error) {
	for i := range wrs {
		wr := &wrs[i]
		if len(wr.SGL) > r.MaxSGE {
			return i, verbs.ErrInvalid
		}
		if r.ring.Len() >= r.MaxWR {
			return i, verbs.ErrQueueFull
		}
		w := r.ring.PushBack()
		w.id = wr.ID
		w.sgl = append(w.sgl[:0], wr.SGL...)
	}
	return len(wrs), nil
}

// Len returns the number of receives posted.
func (r *RecvQueue) Len() int { return r.ring.Len() }

func (r *RecvQueue) clear() { r.ring.Clear() }

// take moves the oldest receive into w, whose memory it uses.
func (r *RecvQueue) take(w *recvWQE) {
	f := r.ring.Front()
	w.id, w.sgl = f.id, append(w.sgl[:0], f.sgl...)
	r.ring.PopFront()
}

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
		q.Device.Outbox.event(verbs.EventQPLastWQEReached, q)
		return
	}
	for q.Recv.Len() > 0 {
		q.Recv.take(&q.resp.msg.recv)
		q.resp.msg.queue, q.resp.msg.hasRecv = q.Recv, true
		q.completeRecvError(verbs.WRFlushError)
	}
}
