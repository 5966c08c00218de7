// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"fmt"

	"github.com/ramjet-rdma/ramjet/internal/base/lockorder"
	"github.com/ramjet-rdma/ramjet/internal/base/memory"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// RecvWQE is a posted receive.
type RecvWQE struct {
	ID  uint64
	SGL []verbs.SGE
}

// RecvQueue holds posted receives: of one queue pair, or shared by several. Only a shared one is safe for concurrent
// use: it has a lock, because programs post to it, and queue pairs of every lane take from it, at any time.
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

	mu   lockorder.Mutex[lockorder.Leaf] // of a shared queue: its ring, MaxWR and Limit
	ring Ring[RecvWQE]
}

// lock locks a queue if it is shared, and unlock unlocks it.
func (r *RecvQueue) lock() {
	if r.Shared {
		r.mu.Lock()
	}
}

func (r *RecvQueue) unlock() {
	if r.Shared {
		r.mu.Unlock()
	}
}

// Post adds receives in order and returns how many.
func (r *RecvQueue) Post(wrs []verbs.RecvWR) (int, error) {
	r.lock()
	defer r.unlock()
	for i := range wrs {
		wr := &wrs[i]
		if len(wr.SGL) > r.MaxSGE {
			return i, r.tooManySGEs(len(wr.SGL))
		}
		if r.held() >= r.MaxWR {
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
func (r *RecvQueue) Len() int {
	r.lock()
	defer r.unlock()
	return r.ring.Len()
}

// held returns how many places are taken. The lock is held.
func (r *RecvQueue) held() int { return max(r.ring.Len(), r.Slots.Taken()) }

// room returns the length of the oldest receive in bytes. The queue is not empty, and the lock is held.
func (r *RecvQueue) room() uint64 {
	n := uint64(0)
	for _, sge := range r.ring.Front().SGL {
		n += uint64(sge.Length)
	}
	return n
}

// Attr returns the attributes of a shared receive queue.
func (r *RecvQueue) Attr() verbs.SRQAttr {
	r.lock()
	defer r.unlock()
	return verbs.SRQAttr{MaxWR: r.MaxWR, MaxSGE: r.MaxSGE, Limit: r.Limit}
}

// Modify changes the attributes of a shared receive queue that mask names, and returns all of them. most is the
// device's limit of MaxWR.
func (r *RecvQueue) Modify(attr verbs.SRQAttr, mask verbs.SRQMask, most int) (verbs.SRQAttr, error) {
	r.lock()
	defer r.unlock()
	invalid := func(why string) (verbs.SRQAttr, error) {
		return verbs.SRQAttr{}, &verbs.OpError{Op: "modify_srq", Err: verbs.ErrInvalid, Detail: why}
	}
	maxWR, limit := r.MaxWR, r.Limit
	if mask&^(verbs.SRQMaxWR|verbs.SRQLimit) != 0 {
		return invalid("the mask has bits that mean nothing")
	}
	if mask&verbs.SRQMaxWR != 0 {
		if maxWR = attr.MaxWR; maxWR < r.held() || maxWR <= 0 || maxWR > most {
			return invalid("MaxWR is below what is posted, or beyond the device's limit")
		}
	}
	if mask&verbs.SRQLimit != 0 {
		limit = attr.Limit
	}
	if limit < 0 || limit > maxWR {
		return invalid("Limit is beyond MaxWR")
	}
	r.MaxWR, r.Limit = maxWR, limit
	return verbs.SRQAttr{MaxWR: maxWR, MaxSGE: r.MaxSGE, Limit: limit}, nil
}

// Clear drops all receives of a queue that is not shared.
func (r *RecvQueue) Clear() {
	r.ring.Clear()
	if r.Slots != nil {
		r.Slots = new(Slots)
	}
}

// take moves the oldest receive into w, reusing its memory, unless it has room for fewer than n bytes: then it stays,
// and room is how many it has room for. ok is false if no receive is posted. low reports whether fewer receives are
// left than Limit, for the first time since that was set (IBTA 10.2.9.1).
func (r *RecvQueue) take(w *RecvWQE, n uint64) (room uint64, ok, low bool) {
	r.lock()
	defer r.unlock()
	if r.ring.Len() == 0 {
		return 0, false, false
	}
	if n > 0 {
		if room = r.room(); room < n {
			return room, true, false
		}
	}
	f := r.ring.Front()
	w.ID, w.SGL = f.ID, append(w.SGL[:0], f.SGL...)
	r.ring.PopFront()
	if low = r.ring.Len() < r.Limit; low {
		r.Limit = 0
	}
	return room, true, low
}

// Domain is an XRC domain: the shared receive queues that its target queue pairs can reach, by
// number.
type Domain struct{ Queues map[uint32]*RecvQueue }
