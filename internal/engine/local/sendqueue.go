// SPDX-License-Identifier: Apache-2.0

package local

import (
	"github.com/ramjet-rdma/ramjet/internal/core/queue"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// sendQueue holds the work requests that have not completed, oldest first. Those before next have
// been carried out, or are completely in the ring.
type sendQueue struct {
	sq     queue.Ring[sendWQE]
	popped uint64 // how many have left the queue
	next   int
	loud   int                // work requests in the queue that complete with a completion
	reads  queue.Ring[readOp] // READs and atomics that the peer has not answered
}

// sendWQE is the record of a send work request until it completes.
type sendWQE struct {
	queue.SendWQE
	begun  bool
	direct bool   // it is carried out in mapped memory
	loud   bool   // it has a completion when it succeeds
	done   bool   // the peer has answered it, or no answer is needed
	end    uint64 // position of its last message in the ring; 0: none
	level  verbs.FlushLevel
	scope  verbs.FlushScope
}

// readOp is a READ or atomic operation that the peer has not answered.
type readOp struct {
	wqe    uint64 // how many work requests had left the queue when its was the oldest
	got    int    // bytes
	atomic bool
	fetch  bool // of a SEND's payload, not of a work request
}

// lacks returns why there is no message for a work request.
func (q *QP) lacks(wr *verbs.SendWR) error {
	switch wr.Op {
	case verbs.SendInv, verbs.Read, verbs.CompareSwap, verbs.FetchAdd, verbs.AtomicWrite, verbs.Flush:
		if q.unreliable() {
			return queue.InvalidSend("%v is no operation of %v", wr.Op, q.Type)
		}
	}
	return nil
}

// Post adds work requests in order and returns how many; with all, none is added if one of them cannot
// be.
func (q *QP) Post(wrs []verbs.SendWR, all bool) (int, error) {
	if q.peer != nil && q.sq.Len()+len(wrs) > q.Caps.MaxSendWR {
		q.tidy()
	}
	n, err := q.CheckSends(wrs, q.sq.Len(), all, q.lacks)
	for i := range n {
		w := q.sq.PushBack()
		q.SetSend(&w.SendWQE, &wrs[i])
		w.begun, w.direct, w.done, w.end = false, false, false, 0
		w.level, w.scope = wrs[i].FlushLevel, wrs[i].FlushScope
		if w.loud = q.Signals(&wrs[i]); w.loud {
			q.loud++
		}
	}
	switch {
	case n > 0 && q.State() >= verbs.SQE:
		q.flushSends()
	case n > 0 && q.absent:
		q.miss()
	}
	return n, err
}

// popFront drops the oldest work request.
func (q *QP) popFront() {
	if q.sq.Front().loud {
		q.loud--
	}
	q.sq.PopFront()
	q.popped++
	q.next = max(0, q.next-1)
}

// retire completes what is done, in order, and then fails what cannot be done. A SEND is done when the
// peer has put it into a receive, which its ring's head says (IBTA 9.7.5.1.1).
func (q *QP) retire(done uint64) {
	for q.next > 0 {
		w := q.sq.Front()
		if !w.done || w.end > done {
			break
		}
		q.CompleteSend(&w.SendWQE, verbs.Success)
		q.popFront()
	}
	if q.next == 0 && q.sq.Len() > 0 && (q.State() == verbs.RTS || q.State() == verbs.SQD) {
		if w := q.sq.Front(); w.Status != verbs.Success && q.State() != verbs.SQD {
			q.fail(w.Status)
			return
		}
	}
	q.checkDrained()
}

// harvest completes what the peer has done meanwhile. A peer that works takes the cache line back that says
// so. So it is left alone while nobody waits for a completion, and there is room.
func (q *QP) harvest() {
	done, err := q.peer.requests.Done()
	if err == nil {
		_, err = q.peer.responses.Done()
	}
	if err != nil {
		q.corrupt()
		return
	}
	q.retire(done)
}

// tidy is harvest for who posts. If something waits for room that would lose what tells of room; then Receive and
// Advance see what is done.
func (q *QP) tidy() {
	if !q.Due() {
		q.harvest()
	}
}

// awaits reports whether something happens here when the peer is done with messages.
func (q *QP) awaits() bool {
	return q.loud > 0 || q.next < q.sq.Len() || q.State() != verbs.RTS || q.resp.Len() > 0 || q.refusal != 0 || q.ref.phase == wanted
}

// flushSends completes all send work requests with WRFlushError.
func (q *QP) flushSends() {
	for q.sq.Len() > 0 {
		q.CompleteSend(&q.sq.Front().SendWQE, verbs.WRFlushError)
		q.popFront()
	}
	q.next = 0
	q.reads.Clear()
}
