// SPDX-License-Identifier: Apache-2.0

package ibta

import (
	"github.com/ramjet-rdma/ramjet/internal/base/memory"
	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/wire/ib"
)

// Flush is a FLUSH to persistence, which the device executes while the engine goes on: it can take
// as long as a disk does. Until then its queue pair takes no further request, because a request behind
// a FLUSH may announce that the data is safe: an ATOMIC WRITE must not execute before it, and the
// receive of a SEND not complete (IBTA annex A19).
type Flush struct {
	qp     *QP
	span   memory.Span
	missed bool // requests that were not kept arrived meanwhile
}

// QP returns the queue pair that received the FLUSH.
func (f *Flush) QP() *QP { return f.qp }

// Memory returns the memory to make persistent. It may be unmapped at any time.
func (f *Flush) Memory() []byte { return f.span.Bytes() }

// Done reports that the memory is persistent, or with ok false that it could not be made so.
// Afterwards the queue pair may have something to send. Done returns false if the queue pair has
// dropped the FLUSH.
func (f *Flush) Done(ok bool) bool {
	q := f.qp
	r := &q.resp
	if r.flush != f {
		return false
	}
	r.flush = nil
	switch {
	case q.State() == verbs.StateError:
		return false
	case !f.span.Valid(): // its region was deregistered meanwhile
		q.RefuseRequest(verbs.Failure{Status: verbs.StatusRemoteAccessError, Reason: verbs.ReasonUnmapped,
			Op: verbs.WCFlush, PSN: r.psn, HasPSN: true}, q.PD, 0)
		q.refuse(remoteAccess)
		return true
	case !ok:
		q.refuse(remoteOperational)
		return true
	}
	q.replyAndSave(reply{kind: replyEmpty, psn: r.psn, packets: 1, msn: r.msn + 1})
	r.psn = r.psn.Next()
	r.msn = (r.msn + 1) & 0xffffff
	q.CountRequest(0, true)
	if r.reorder != nil && !q.carryOutKept() {
		return true
	}
	switch {
	case r.flush != nil:
		r.flush.missed = f.missed
	case f.missed, r.reorder != nil && len(r.reorder.kept) > 0:
		q.nakExpected()
	}
	return true
}

// duringFlush keeps a request that arrives during a FLUSH and follows it. If there is no room for
// it, it will be requested again.
func (q *QP) duringFlush(p *ib.Packet) Reason {
	r := &q.resp
	if r.reorder == nil {
		r.reorder = &reorderBuffer{gap: gap{high: p.PSN}}
	}
	if p.PSN == r.psn || r.reorder.kept[p.PSN] != nil {
		q.Counts.Duplicates++
		q.lane.Counters.Duplicates++
		r.reorder.gap.open = false // the peer has gone back
		return DropDuplicate
	}
	r.reorder.follows(p.PSN, r.psn)
	if !r.reorder.keep(&q.lane.reorder, q.av.Key, p) {
		r.flush.missed = true
		return DropSequence
	}
	q.lane.Counters.Early++
	return Taken
}

// executeFlush begins a FLUSH. Data of earlier WRITEs is already in ordinary memory, visible to
// all processors; only persistence is left to achieve (IBTA annex A19).
func (q *QP) executeFlush(p *ib.Packet) outcome {
	need := requestAccess(p)
	switch {
	case need == 0, p.FETH.Selectivity > ib.SelectRegion:
		return malformed
	case q.Attr().Access&need != need:
		return notAllowed
	case !q.resp.replies.room(q.Attr().MaxDestRdAtomic):
		return tooMany
	}
	pd, ok := q.domain(p)
	if !ok {
		return malformed
	}
	var s memory.Span
	t := q.Device.Memory
	if p.FETH.Selectivity == ib.SelectRegion {
		s, ok = t.RemoteWhole(pd, q.Num, p.RETH.RKey, need)
	} else {
		s, ok = t.Remote(pd, q.Num, p.RETH.RKey, p.RETH.VA, uint64(p.RETH.DMALen), need)
	}
	if !ok {
		return remoteAccess
	}
	if need&verbs.FlushPersistent != 0 && s.Len() > 0 {
		if q.Device.Persist == nil {
			return remoteOperational
		}
		q.resp.flush = &Flush{qp: q, span: s}
		q.Device.Persist(q.resp.flush)
		return underWay
	}
	q.replyAndSave(reply{kind: replyEmpty, psn: p.PSN, packets: 1, msn: q.resp.msn + 1})
	return accept
}
