// SPDX-License-Identifier: Apache-2.0

package local

import (
	"github.com/ramjet-rdma/ramjet/internal/base/memory"
	"github.com/ramjet-rdma/ramjet/internal/base/queue"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// Data written before a FLUSH (IBTA annex A19) is in memory that all processors see. So a FLUSH to global
// visibility only has its rights checked, by the initiator where it knows of the region. A FLUSH to persistence
// goes to the target, whose process has the file. Its message, and all messages behind it, stay in the ring
// meanwhile; when the target takes the message the FLUSH is done.

// Flush is a FLUSH to persistence, which the device executes while the engine goes on: it can take as long as a
// disk does.
type Flush struct {
	qp   *QP
	span memory.Span
	done bool
}

// QP returns the queue pair that received the FLUSH.
func (f *Flush) QP() *QP { return f.qp }

// Memory returns the memory to make persistent. It may be unmapped at any time.
func (f *Flush) Memory() []byte { return f.span.Bytes() }

// Done reports that the memory is persistent, or with ok false that it could not be made so. It returns false if
// the queue pair has dropped the FLUSH; otherwise the queue pair has something to receive or to send.
func (f *Flush) Done(ok bool) bool {
	q := f.qp
	switch {
	case q.flush != f || q.peer == nil:
		return false
	case !f.span.Valid(): // its region was deregistered meanwhile
		q.RefuseRequest(verbs.Failure{Status: verbs.StatusRemoteAccessError, Reason: verbs.ReasonUnmapped,
			Op: verbs.WCFlush}, q.PD, 0)
		q.violated()
	case !ok:
		q.refuse(verbs.StatusRemoteOperationError, verbs.EventQPFatal)
	default:
		f.done = true
	}
	return true
}

// Flushing reports whether a FLUSH is under way: later messages of the peer wait for it.
func (q *QP) Flushing() bool { return q.flush != nil && !q.flush.done }

// needs returns which rights a work request needs (IBTA 9.7.5.1.3); 0: it is not one-sided.
func (w *sendWQE) needs() verbs.Access {
	if w.class() == classFlush {
		return queue.FlushAccess(w.level)
	}
	return queue.Needs(w.Op)
}

// covers reports whether this side knows that the target allows a FLUSH to global visibility.
func (q *QP) covers(w *sendWQE) bool {
	addr, n := w.Remote.Addr, int(w.Length)
	if w.scope == verbs.FlushRegion {
		if !q.peer.lookUp(&q.remoteCache, w.Remote.Key) {
			return false
		}
		addr, n = q.remoteCache.entry.Base, 0
	}
	mem, at := q.peer.find(&q.remoteCache, w.Remote.Key, addr, n, verbs.FlushGlobal)
	return mem != nil || at != 0
}

func (q *QP) askFlush(w *sendWQE) bool {
	b := q.reserve(flushFields, opFlush)
	if b == nil {
		return false
	}
	put32(b, 0, uint32(w.Remote.Key))
	put32(b, 4, 0)
	b[4], b[5] = byte(w.level), byte(w.scope)
	put64(b, 8, w.Remote.Addr)
	put64(b, 16, uint64(w.Length))
	w.done = true
	q.sentOff(w)
	return true
}

// takeFlush begins a FLUSH, whose message stays in the ring until it is done. It returns false while that is under
// way.
func (q *QP) takeFlush(key verbs.Key, level verbs.FlushLevel, scope verbs.FlushScope, addr, n uint64) bool {
	const op = verbs.WCFlush
	need := queue.FlushAccess(level)
	if need == 0 || level > verbs.FlushToGlobal|verbs.FlushToPersistent || scope > verbs.FlushRegion {
		q.corrupt()
		return false
	}
	if q.Attr().Access&need != need {
		return q.forbidden(op, key, addr, n, need)
	}
	t := q.Device.Memory
	s, ok := t.Remote(q.PD, q.Num, key, addr, n, need)
	if scope == verbs.FlushRegion {
		s, ok = t.RemoteWhole(q.PD, q.Num, key, need)
	}
	switch {
	case !ok:
		return q.notAllowed(op, key, addr, n, need)
	case need&verbs.FlushPersistent == 0 || s.Len() == 0:
		q.CountRequest(0, true)
		return true
	case q.Device.Persist == nil:
		return q.refuse(verbs.StatusRemoteOperationError, verbs.EventQPFatal)
	}
	q.flush = &Flush{qp: q, span: s}
	q.Device.Persist(q.flush)
	return false
}

// endFlush takes the message of a FLUSH that is done. It returns false while that is under way.
func (q *QP) endFlush() bool {
	if q.Flushing() {
		return false
	}
	q.flush = nil
	q.CountRequest(0, true)
	return true
}
