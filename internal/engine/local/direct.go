// SPDX-License-Identifier: Apache-2.0

package local

import (
	"encoding/binary"

	"github.com/ramjet-rdma/ramjet/internal/base/memory"
	"github.com/ramjet-rdma/ramjet/internal/base/queue"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// stride is how much of an operation is carried out at once in mapped memory. The key is looked up
// again for each, so that a region that is withdrawn is not used for long.
const stride = 256 << 10

// waitFrom is from how many bytes on a READ waits for the messages before it to be taken. A shorter one goes through
// the ring behind them: that takes less time than to hear that they were taken.
const waitFrom = 4 << 10

// follows reports whether a one-sided operation has to follow messages that the target has not taken yet: its effect
// may not be seen before theirs (IBTA 9.5).
func (q *QP) follows(w *sendWQE) bool {
	r := q.peer.requests
	if !r.Unacknowledged() || w.Length == 0 && w.class() != classFlush { // it names no memory
		return false
	}
	_, err := r.Done()
	return err != nil || r.Unacknowledged()
}

// reaches reports whether this side can carry out an operation by itself. If accesses to memory are checked on this
// side, it leaves all operations to the target, which may check them, too.
func (q *QP) reaches(w *sendWQE) bool {
	need := w.needs()
	if need == 0 || q.Device.Memory.Accesses() != nil {
		return false
	}
	if w.Length == 0 && w.class() != classFlush {
		return true
	}
	if !q.peer.admits(need) {
		return false
	}
	if w.class() == classFlush {
		return need == verbs.FlushGlobal && q.covers(w)
	}
	mem, at := q.peer.find(&q.remoteCache, w.Remote.Key, w.Remote.Addr, int(w.Length), need)
	if at != 0 {
		return crosses(w) && q.peer.memory.Crosses()
	}
	return mem != nil && (!queue.Aligned(w.Op) || whole(mem))
}

// crosses reports whether the system's copies between processes do for an operation. They are not
// atomic: not for atomic operations, and not for a word that has to appear as a whole (see
// verbs.MR.WaitFor).
func crosses(w *sendWQE) bool {
	c := w.class()
	return c == classRead || c == classWrite && (w.Length == 1 || w.Length > 8)
}

// act continues a work request in the peer's memory. If the peer has withdrawn the memory meanwhile, the rest goes
// through the peer, which refuses it.
func (q *QP) act(w *sendWQE) (moved int, ok bool) {
	if w.class() == classFlush {
		return 0, q.carriedOut(w)
	}
	n := min(int(w.Length)-q.off, stride)
	if n > 0 {
		done, ok := q.actOn(w, n)
		switch {
		case !ok:
			w.Status = verbs.StatusLocalProtectionError
			return 0, false
		case !done:
			w.direct, q.here = false, q.off
			q.gather.Seek(q.off)
			return 0, true
		}
		if q.off += n; q.off < int(w.Length) {
			return n, true
		}
	}
	if w.class() == classWrite {
		if ok = q.conclude(w, first); ok {
			q.lane.Counters.Direct++
		}
		return n, ok
	}
	return n, q.carriedOut(w)
}

// actOn carries out n bytes of a work request in the peer's memory. done is false if that cannot be, or the peer has
// withdrawn the memory meanwhile: it does not count then. ok is false if memory of this side is not there any more.
func (q *QP) actOn(w *sendWQE, n int) (done, ok bool) {
	p, need := q.peer, w.needs()
	at := verbs.Remote{Key: w.Remote.Key, Addr: w.Remote.Addr + uint64(q.off)}
	p.begin(at, n)
	defer p.end()
	mem, place := p.find(&q.remoteCache, at.Key, at.Addr, n, need)
	switch {
	case !p.admits(need):
		return false, true
	case mem == nil:
		p.end()
		return place != 0 && q.cross(w, place, n), true
	case queue.Aligned(w.Op) && !whole(mem): // the peer has moved the region since this was begun
		return false, true
	case !q.move(w, mem):
		return false, false
	case need != verbs.RemoteAtomic && !p.remains(&q.remoteCache, need):
		return false, true
	}
	switch need {
	case verbs.RemoteRead:
		q.lane.Counters.RecvBytes += uint64(n)
	case verbs.RemoteWrite:
		q.lane.Counters.SentBytes += uint64(n)
	}
	return true, true
}

// whole reports whether memory is an aligned word.
func whole(mem []byte) bool {
	s := memory.Inline(mem)
	return s.Aligned8()
}

// settle makes this side's writes to the peer's memory visible before it reads there (IBTA 9.5).
func (q *QP) settle() {
	if q.unsettled {
		q.unsettled = false
		memory.Fence()
	}
}

// carriedOut ends a work request that this side has carried out by itself.
func (q *QP) carriedOut(w *sendWQE) bool {
	q.lane.Counters.Direct++
	w.done = true
	q.finish()
	return true
}

// cross carries out an operation on a piece of the peer's other memory, by the system's copies. It
// returns false if that cannot be, and none of the piece counts as done.
func (q *QP) cross(w *sendWQE, at uint64, n int) bool {
	p := q.peer
	p.enter()
	defer p.exit()
	if !q.remoteCache.place.Holds() || !p.admits(w.needs()) {
		return false
	}
	reads := w.class() == classRead
	if reads {
		q.settle()
	} else {
		q.unsettled = true
		memory.Order()
	}
	for done := 0; done < n; {
		b, ok := q.gather.Next(n - done)
		if !ok || !p.memory.Cross(b, at+uint64(done), !reads) {
			q.gather.Seek(q.off)
			return false
		}
		done += len(b)
	}
	q.lane.Counters.Crossed++
	if reads {
		q.lane.Counters.RecvBytes += uint64(n)
	} else {
		q.lane.Counters.SentBytes += uint64(n)
	}
	return true
}

// move carries out an operation on a piece of mapped memory. It returns false if memory of this side
// is not there any more.
func (q *QP) move(w *sendWQE, mem []byte) bool {
	switch w.class() {
	case classWrite, classStore:
		return q.store(mem)
	case classRead:
		q.settle()
		return q.gather.Write(q.Device.Memory, mem)
	}
	q.unsettled = true
	return q.gather.Write(q.Device.Memory, q.atomic(w.Op, mem, w.Compare, w.Swap))
}

// atomic carries out an atomic operation on a word, and returns its former value.
func (q *QP) atomic(op verbs.SendOp, mem []byte, compare, swap uint64) []byte {
	old, _, _ := queue.Atomic(memory.Inline(mem), op, compare, swap)
	b := q.lane.word[:]
	binary.NativeEndian.PutUint64(b, old)
	return b
}

// store writes to the peer's memory, after earlier writes. A write of at most 8 bytes appears as a whole; see
// verbs.MR.WaitFor.
func (q *QP) store(mem []byte) bool {
	q.unsettled = true
	if n := len(mem); n <= len(q.lane.word) {
		b := q.lane.word[:n]
		if !q.gather.Read(b) {
			return false
		}
		memory.Put(mem, b)
		return true
	}
	memory.Order()
	return q.gather.Read(mem)
}
