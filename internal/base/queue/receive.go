// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"github.com/ramjet-rdma/ramjet/internal/base/memory"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// receive is the receive taken by the current message.
type receive struct {
	RecvWQE
	from *RecvQueue // nil: none is taken
}

// PostRecv posts receives to the queue pair's own queue, in order, and returns how many.
func (p *Pair) PostRecv(wrs []verbs.RecvWR) (int, error) {
	if p.Recv == nil || p.Recv.Shared {
		return 0, &verbs.OpError{Op: "post_recv", Err: verbs.ErrInvalid,
			Detail: "the queue pair has no receive queue of its own"}
	}
	if p.state == verbs.StateReset {
		return 0, &verbs.OpError{Op: "post_recv", Err: verbs.ErrState, Detail: "RESET"}
	}
	n, err := p.Recv.Post(wrs)
	if p.state == verbs.StateError {
		p.FlushReceives()
	}
	return n, err
}

// HasReceive reports whether the current message has taken a receive.
func (p *Pair) HasReceive() bool { return p.taken.from != nil }

// TakeReceive takes the oldest receive of rq for a message. It returns false if none is posted.
func (p *Pair) TakeReceive(rq *RecvQueue) bool {
	_, ok := p.TakeReceiveOf(rq, 0)
	return ok
}

// TakeReceiveOf is TakeReceive for a datagram of n bytes. If the oldest receive has room for fewer it stays posted,
// and room is less than n.
func (p *Pair) TakeReceiveOf(rq *RecvQueue, n uint64) (room uint64, ok bool) {
	room, ok, low := rq.take(&p.taken.RecvWQE, n)
	if ok && room >= n {
		p.taken.from = rq
	}
	if low {
		p.out.Raise(verbs.EventSRQLimitReached, rq.Owner)
	}
	return room, ok
}

// Scatter points a cursor at the memory of the taken receive, in its queue's protection domain. It
// returns false if that does not allow access.
func (p *Pair) Scatter(c *memory.Cursor) bool {
	return c.Set(p.dev.Memory, p.taken.from.PD, p.taken.SGL, true)
}

// ScatterOne is Scatter for a receive of one piece of memory, mostly in the same region as the one before.
func (p *Pair) ScatterOne(l *memory.LookupCache) (memory.Span, bool) {
	if len(p.taken.SGL) != 1 {
		return memory.Span{}, false
	}
	return p.dev.Memory.LocalCached(l, p.taken.from.PD, &p.taken.SGL[0], true)
}

// CompleteReceive completes the taken receive, and returns the completion to be filled in further.
func (p *Pair) CompleteReceive(s verbs.Status) *Completion {
	reason := verbs.ReasonUnknown
	if s != verbs.StatusSuccess && s != verbs.StatusWRFlushError {
		reason = p.receiveFailed(s)
	}
	cq := p.RecvCQ
	if own := p.taken.from.CQ; own != nil {
		cq = own
	}
	c := p.out.Complete(cq)
	if s := p.taken.from.Slots; s != nil {
		c.Frees = Frees{s, 1}
	}
	p.taken.from = nil
	c.WC.ID, c.WC.Status, c.WC.Op, c.WC.QPN, c.WC.VendorErr = p.taken.ID, s, verbs.WCRecv, p.Num, uint32(reason)
	return c
}

// FlushReceives completes all receives with WRFlushError, the taken one first. A shared receive
// queue keeps its receives, and the queue pair reports that it has taken its last one (IBTA
// 10.2.9.5).
func (p *Pair) FlushReceives() {
	if p.HasReceive() {
		p.CompleteReceive(verbs.StatusWRFlushError)
	}
	if p.Recv == nil {
		return
	}
	if p.Recv.Shared {
		p.Raise(verbs.EventQPLastWQEReached)
		return
	}
	for p.TakeReceive(p.Recv) {
		p.CompleteReceive(verbs.StatusWRFlushError)
	}
}
