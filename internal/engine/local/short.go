// SPDX-License-Identifier: Apache-2.0

package local

import (
	"github.com/ramjet-rdma/ramjet/internal/base/memory"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// reapFrom is how many work requests the send queue holds before short SENDs reap, and reapEvery how many short
// SENDs share a look at the head.
const (
	reapFrom  = 32
	reapEvery = 16
)

// SendShort sends a SEND that is one message at once, if nothing waits before it: it is copied straight from the
// program's memory into the ring. It returns the number of bytes. If it returns false the work request is to be
// posted, which also reports its errors: nothing has been sent then.
func (q *QP) SendShort(wr *verbs.SendWR) (n int, ok bool) {
	if q.peer == nil || q.State() != verbs.StateRTS || q.next < q.sq.Len() ||
		q.unreliable() && operations[wr.Op].flags.has(invalidate) || wr.Flags&verbs.Fence != 0 && q.reads.Len() > 0 {
		return 0, false
	}
	if held := q.sq.Len(); held >= q.Caps.MaxSendWR || held >= reapFrom && held%reapEvery == 0 {
		q.reapForPost()
		if q.peer == nil || q.State() != verbs.StateRTS || q.sq.Len() >= q.Caps.MaxSendWR {
			return 0, false
		}
	}
	var s memory.Span
	switch {
	case wr.Inline != nil:
		s, ok = memory.Inline(wr.Inline), len(wr.Inline) <= q.Caps.MaxInline
	case len(wr.SGL) == 1 && q.Caps.MaxSendSGE > 0:
		s, ok = q.Device.Memory.LocalCached(&q.localCache, q.PD, &wr.SGL[0], false)
	}
	if n = s.Len(); !ok || n > piece {
		return 0, false
	}
	k, field := q.sendKind(wr.Op, wr.Flags, wr.Imm, wr.InvKey)
	b := q.reserve(sendFields+n, opSend|first|last|k)
	if b == nil || !s.Read(b[sendFields:]) {
		return 0, false
	}
	put32(b, 0, field)
	q.publish()
	q.lane.Counters.SentBytes += uint64(n)
	w := q.sq.PushBack()
	w.ID, w.Op, w.Flags, w.Status, w.Copied, w.Length, w.SGL = wr.ID, wr.Op, wr.Flags, verbs.StatusSuccess, false,
		uint32(n), w.SGL[:0]
	w.begun, w.direct, w.done, w.end = true, false, true, q.peer.requests.Position()
	q.next++
	if w.signaled = q.Signals(wr); w.signaled {
		q.signaled++
	}
	if q.unreliable() {
		w.end = 0
		q.retire(0)
	}
	if !q.peer.Await(q.awaits()) {
		q.pending = true
	}
	return n, true
}

// takeWhole puts a SEND that is one message into a receive of one piece. It returns false if it cannot.
func (q *QP) takeWhole(b []byte) bool {
	s, ok := q.ScatterOne(&q.into)
	return ok && len(b) <= s.Len() && s.Write(q.Device.Memory, 0, b)
}
