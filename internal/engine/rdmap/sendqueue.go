// SPDX-License-Identifier: Apache-2.0

package rdmap

import (
	"github.com/ramjet-rdma/ramjet/internal/base/memory"
	"github.com/ramjet-rdma/ramjet/internal/base/queue"
	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/wire/iwarp"
)

// sendQueue holds the work requests that have not completed, oldest first. Work requests before next
// are completely in FPDUs.
type sendQueue struct {
	sq     queue.Ring[sendWQE]
	popped uint64 // total number of work requests that have left the queue
	next   int
	reads  queue.Ring[readOp] // requests whose responses are outstanding
}

// begun reports whether a work request has begun, and not completed.
func (s *sendQueue) begun() bool { return s.sq.Len() > 0 && s.sq.Front().begun }

// sendWQE is the sender's record of a send work request until it completes.
type sendWQE struct {
	queue.SendWQE
	begun    bool
	asked    int // requests sent: one for each piece of a READ's memory
	answered int
	end      uint64 // its end in the stream, once it is completely in FPDUs
}

// readOp is a READ or atomic request whose response is outstanding.
type readOp struct {
	wqe    uint64 // its work request: how many had left the queue when it was the oldest
	rtr    bool   // not of a work request: it was the ready-to-receive message
	atomic bool
	id     uint32      // atomic
	stag   iwarp.STag  // READ: the sink
	to     uint64      //
	size   uint32      //
	got    uint32      //
	span   memory.Span // the destination of the data
}

// unsupported has the reason for each operation that iWARP has no message for.
var unsupported = queue.UnsupportedOps{
	verbs.OpSendImm:     "iWARP's immediate data are a message of their own: use RDMA_WRITE_WITH_IMM, or put them into the message",
	verbs.OpAtomicWrite: "iWARP has no atomic write",
	verbs.OpFlush:       "iWARP has no flush: a READ of what was written makes sure that it has arrived",
}

// checkOp returns why there is no message for a work request.
func (q *QP) checkOp(wr *verbs.SendWR) error {
	if q.Device.NIC && wr.Op == verbs.OpRead && len(wr.SGL) > 1 {
		return queue.InvalidSend("a READ into %d scatter/gather entries: MaxSGERead is 1", len(wr.SGL))
	}
	return unsupported.Check(wr)
}

// PostSend adds work requests in order and returns how many.
func (q *QP) PostSend(wrs []verbs.SendWR) (int, error) { return q.Post(wrs, false) }

// Post is PostSend; with all, none is added if one of them cannot be.
func (q *QP) Post(wrs []verbs.SendWR, all bool) (int, error) {
	n, err := q.CheckSends(wrs, q.sq.Len(), all, q.checkOp)
	for i := range n {
		w := q.sq.PushBack()
		q.SetSend(&w.SendWQE, &wrs[i])
		w.begun, w.asked, w.answered, w.end = false, 0, 0, 0
	}
	if n > 0 && q.State() == verbs.StateError {
		q.flushSends()
	}
	return n, err
}

// popFront drops the oldest work request.
func (q *QP) popFront() {
	q.sq.PopFront()
	q.popped++
	q.next = max(0, q.next-1)
}

// retire completes work requests that are done, in order, and then fails one that cannot be carried out.
func (q *QP) retire() {
	for q.sq.Len() > 0 {
		w := q.sq.Front()
		if q.next == 0 || w.Responds() && w.answered < w.asked || w.end > q.tx.sent {
			break
		}
		q.CompleteSend(&w.SendWQE, verbs.StatusSuccess)
		q.popFront()
	}
	if q.next == 0 && q.sq.Len() > 0 {
		if w := q.sq.Front(); w.Status != verbs.StatusSuccess && q.State() != verbs.StateSQD {
			status := w.Status
			q.terminateLocal()
			q.fail(status)
			return
		}
	}
	q.CheckDrained(q.begun())
}

// flushSends completes all send work requests with WRFlushError.
func (q *QP) flushSends() {
	for q.sq.Len() > 0 {
		q.CompleteSend(&q.sq.Front().SendWQE, verbs.StatusWRFlushError)
		q.popFront()
	}
	q.next = 0
	q.reads.Clear()
}
