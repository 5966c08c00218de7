// SPDX-License-Identifier: Apache-2.0

package local

import (
	"github.com/ramjet-rdma/ramjet/internal/base/memory"
	"github.com/ramjet-rdma/ramjet/internal/base/queue"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// Perform carries out a work request without a place in the send queue, and fills its completion: a short
// one-sided operation in mapped memory, of one piece of local memory, before which no other waits. It
// returns how many bytes it moved. If it returns false the work request is to be posted, which also reports
// its errors: nothing has happened then, or part of a copy that is made again.
func (q *QP) Perform(wr *verbs.SendWR, wc *verbs.WC) (n int, ok bool) {
	if q.peer == nil || q.State() != verbs.StateRTS || q.reads.Len() > 0 || q.Device.Memory.Accesses() != nil {
		return 0, false
	}
	if q.busy() {
		if q.reapForPost(); q.busy() || q.peer == nil || q.State() != verbs.StateRTS {
			return 0, false
		}
	}
	c := operations[wr.Op].class
	local, ok := q.localSpan(wr, c)
	n = local.Len()
	if !ok || n == 0 || n > stride {
		return 0, false
	}
	need := queue.Needs(wr.Op)
	q.peer.begin(wr.Remote, n)
	remote, _ := q.peer.find(&q.remoteCache, wr.Remote.Key, wr.Remote.Addr, n, need)
	ok = remote != nil && q.peer.admits(need) && q.exchange(wr, c, &local, remote) &&
		(need == verbs.RemoteAtomic || q.peer.remains(&q.remoteCache, need))
	q.peer.end()
	if !ok {
		return 0, false
	}
	switch c {
	case classWrite, classStore:
		q.lane.Counters.SentBytes += uint64(n)
	case classRead:
		q.lane.Counters.RecvBytes += uint64(n)
	}
	q.lane.Counters.Direct++
	q.Performed(wr, n, wc)
	return n, true
}

// busy reports whether there may be something before a work request that is posted now.
func (q *QP) busy() bool { return q.sq.Len() > 0 || q.peer.requests.Unacknowledged() }

// localSpan finds the memory of a work request on this side, for operations that [QP.Perform] carries out.
func (q *QP) localSpan(wr *verbs.SendWR, c class) (memory.Span, bool) {
	receives := true
	switch c {
	case classStore:
		if q.Attr().MaxRdAtomic == 0 {
			return memory.Span{}, false
		}
		fallthrough
	case classWrite:
		if operations[wr.Op].flags != 0 { // it has a message, too
			return memory.Span{}, false
		}
		receives = false
		if wr.Inline != nil {
			return memory.Inline(wr.Inline), len(wr.Inline) <= q.Caps.MaxInline
		}
	case classRead, classAtomic:
		if wr.Inline != nil || q.Attr().MaxRdAtomic == 0 {
			return memory.Span{}, false
		}
	default:
		return memory.Span{}, false
	}
	if len(wr.SGL) != 1 || q.Caps.MaxSendSGE < 1 {
		return memory.Span{}, false
	}
	return q.Device.Memory.LocalCached(&q.localCache, q.PD, &wr.SGL[0], receives)
}

// exchange carries out an operation on both memories, which are of one length. It returns false if that
// cannot be.
func (q *QP) exchange(wr *verbs.SendWR, c class, local *memory.Span, remote []byte) bool {
	switch c {
	case classRead:
		q.settle()
		return local.Write(q.Device.Memory, 0, remote)
	case classWrite:
		q.unsettled = true
		if n := len(remote); n <= len(q.lane.word) {
			b := q.lane.word[:n]
			if !local.Read(b) {
				return false
			}
			memory.Put(remote, b)
			return true
		}
		memory.Order()
		return local.Read(remote)
	}
	q.unsettled = true
	s := memory.Inline(remote)
	if c == classStore {
		b := q.lane.word[:]
		return s.Aligned8() && local.Read(b) && s.Store(b)
	}
	return s.Aligned8() && local.Len() == 8 && !local.Foreign() &&
		local.Write(q.Device.Memory, 0, q.atomic(wr.Op, remote, wr.Compare, queue.Operand(wr)))
}
