// SPDX-License-Identifier: Apache-2.0

package local

import (
	"math"

	"github.com/ramjet-rdma/ramjet/internal/base/queue"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// sendQueue holds the work requests that have not completed, oldest first. Work requests before next
// have been carried out, or are completely in the ring.
type sendQueue struct {
	sq       queue.Ring[sendWQE]
	popped   uint64 // how many have left the queue
	next     int
	signaled int                // work requests in the queue that complete with a completion
	reads    queue.Ring[readOp] // READs and atomics that the peer has not answered
}

// begun reports whether a work request has begun, and not completed.
func (s *sendQueue) begun() bool { return s.sq.Len() > 0 && s.sq.Front().begun }

// sendWQE is the record of a send work request until it completes.
type sendWQE struct {
	queue.SendWQE
	begun    bool
	direct   bool   // it is carried out in mapped memory
	signaled bool   // it has a completion when it succeeds
	done     bool   // the peer has answered it, or no answer is needed
	end      uint64 // position of its last message in the ring; 0: none
	level    verbs.FlushLevel
	scope    verbs.FlushScope
}

// class is how an operation is carried out.
type class uint8

const (
	_ class = iota // nothing is sent; also numbers that are no operations
	classSend
	classWrite
	classRead
	classAtomic // compare-and-swap, fetch-and-add
	classStore  // ATOMIC WRITE
	classFlush
)

// operation describes an operation as the initiator carries it out.
type operation struct {
	class class
	flags kind // of its message that takes a receive: which field it has
}

var operations = [math.MaxUint8 + 1]operation{
	verbs.OpSend:        {class: classSend},
	verbs.OpSendImm:     {class: classSend, flags: immediate},
	verbs.OpSendInv:     {class: classSend, flags: invalidate},
	verbs.OpWrite:       {class: classWrite},
	verbs.OpWriteImm:    {class: classWrite, flags: immediate},
	verbs.OpRead:        {class: classRead},
	verbs.OpCompareSwap: {class: classAtomic},
	verbs.OpFetchAdd:    {class: classAtomic},
	verbs.OpAtomicWrite: {class: classStore},
	verbs.OpFlush:       {class: classFlush},
}

// class returns how the work request is carried out.
func (w *sendWQE) class() class { return operations[w.Op].class }

// readOp is a READ or atomic operation that the peer has not answered.
type readOp struct {
	wqe    uint64 // how many work requests had left the queue when its was the oldest
	got    int    // bytes
	atomic bool
	fetch  bool // of a SEND's payload, not of a work request
}

// Post adds work requests in order and returns how many; with all, none is added if one of them cannot
// be.
func (q *QP) Post(wrs []verbs.SendWR, all bool) (int, error) {
	if q.peer != nil && q.sq.Len()+len(wrs) > q.Caps.MaxSendWR {
		q.reapForPost()
	}
	n, err := q.CheckSends(wrs, q.sq.Len(), all, nil)
	for i := range n {
		w := q.sq.PushBack()
		q.SetSend(&w.SendWQE, &wrs[i])
		w.begun, w.direct, w.done, w.end = false, false, false, 0
		w.level, w.scope = wrs[i].FlushLevel, wrs[i].FlushScope
		if w.signaled = q.Signals(&wrs[i]); w.signaled {
			q.signaled++
		}
	}
	switch {
	case n > 0 && q.State() >= verbs.StateSQE:
		q.flushSends()
	case n > 0 && q.absent:
		q.miss()
	}
	return n, err
}

// popFront drops the oldest work request.
func (q *QP) popFront() {
	if q.sq.Front().signaled {
		q.signaled--
	}
	q.sq.PopFront()
	q.popped++
	q.next = max(0, q.next-1)
}

// retire completes work requests that are done, in order, and then fails one that cannot be carried out. A SEND
// is done when the peer has put it into a receive, which its ring's head says (IBTA 9.7.5.1.1).
func (q *QP) retire(done uint64) {
	for q.next > 0 {
		w := q.sq.Front()
		if !w.done || w.end > done {
			break
		}
		q.CompleteSend(&w.SendWQE, verbs.StatusSuccess)
		q.popFront()
	}
	if q.next == 0 && q.sq.Len() > 0 && (q.State() == verbs.StateRTS || q.State() == verbs.StateSQD) {
		if w := q.sq.Front(); w.Status != verbs.StatusSuccess && q.State() != verbs.StateSQD {
			q.fail(w.Status)
			return
		}
	}
	q.CheckDrained(q.begun())
}

// reap completes the work requests whose messages the peer has consumed. Each look at the head takes its cache line
// from a peer that works. So it is not called while no completion is waited for, and there is room.
func (q *QP) reap() {
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

// reapForPost reaps for a program that posts, unless something waits for room: then Receive and Advance have to see
// the head move.
func (q *QP) reapForPost() {
	if !q.Due() {
		q.reap()
	}
}

// awaits reports whether something happens here when the peer is done with messages.
func (q *QP) awaits() bool {
	return q.signaled > 0 || q.next < q.sq.Len() || q.State() != verbs.StateRTS || q.resp.Len() > 0 || q.refusal != 0 ||
		q.ref.phase == wanted
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
