// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"fmt"

	"github.com/ramjet-rdma/ramjet/internal/base/memory"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// RecvWQE is a posted receive.
type RecvWQE struct {
	ID  uint64
	SGL []verbs.SGE
}

// RecvQueue holds posted receives: of one queue pair, or shared by several.
type RecvQueue struct {
	PD     memory.PD
	MaxWR  int
	MaxSGE int
	Slots  *Slots // nil: a place is free once its receive is taken

	// Of a shared receive queue.
	Shared bool
	Limit  int    // event once fewer receives are posted; 0: off
	Num    uint32 // XRC: the number that senders name
	CQ     *CQ    // XRC: where receives complete
	Owner  any    // the device's own

	ring Ring[RecvWQE]
}

// Post adds receives in order and returns how many.
func (r *RecvQueue) Post(wrs []verbs.RecvWR) (int, error) {
	for i := range wrs {
		wr := &wrs[i]
		if len(wr.SGL) > r.MaxSGE {
			return i, r.tooManySGEs(len(wr.SGL))
		}
		if r.Held() >= r.MaxWR {
			return i, verbs.ErrQueueFull
		}
		r.Slots.add(1)
		w := r.ring.PushBack()
		w.ID = wr.ID
		w.SGL = append(w.SGL[:0], wr.SGL...)
	}
	return len(wrs), nil
}

func (r *RecvQueue) tooManySGEs(n int) error {
	op := "post_recv"
	if r.Shared {
		op = "post_srq_recv"
	}
	return &verbs.OpError{Op: op, Err: verbs.ErrInvalid,
		Detail: fmt.Sprintf("%d SGEs, above the queue's MaxSGE of %d", n, r.MaxSGE)}
}

// Len returns the number of receives posted.
func (r *RecvQueue) Len() int { return r.ring.Len() }

// Held returns how many places are taken.
func (r *RecvQueue) Held() int { return max(r.ring.Len(), r.Slots.Taken()) }

// NextLen returns the length of the oldest receive in bytes. The queue must not be empty.
func (r *RecvQueue) NextLen() uint64 {
	n := uint64(0)
	for _, sge := range r.ring.Front().SGL {
		n += uint64(sge.Length)
	}
	return n
}

// Clear drops all receives of a queue that is not shared.
func (r *RecvQueue) Clear() {
	r.ring.Clear()
	if r.Slots != nil {
		r.Slots = new(Slots)
	}
}

// Take moves the oldest receive into w, reusing its memory.
func (r *RecvQueue) Take(w *RecvWQE) {
	f := r.ring.Front()
	w.ID, w.SGL = f.ID, append(w.SGL[:0], f.SGL...)
	r.ring.PopFront()
}

// Domain is an XRC domain: the shared receive queues that its target queue pairs can reach, by
// number.
type Domain struct{ Queues map[uint32]*RecvQueue }
