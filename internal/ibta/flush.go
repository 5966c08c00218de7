// SPDX-License-Identifier: Apache-2.0

package ibta

import (
	"github.com/ramjet-rdma/ramjet/internal/memory"
	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/wire/ib"
)

// Flush is a FLUSH to persistence, which the device carries out while the engine goes on: it
// can take as long as a disk does. The queue pair it came to takes no request until then, as what follows
// a FLUSH may say that the data is safe: an ATOMIC WRITE must not be carried out before it, and
// the receive of a SEND not complete (IBTA annex A19).
type Flush struct {
	qp     *QP
	span   memory.Span
	missed bool // requests came meanwhile
}

// QP returns the queue pair that the FLUSH came to.
func (f *Flush) QP() *QP { return f.qp }

// Memory returns what is to be made persistent. It may be unmapped at any time.
func (f *Flush) Memory() []byte { return f.span.Bytes() }

// Done says that the memory is persistent, or with ok false that it could not be made so. The
// queue pair may have something to send then; false: it has forgotten the FLUSH.
func (f *Flush) Done(ok bool) bool {
	q := f.qp
	r := &q.resp
	if r.flush != f {
		return false
	}
	r.flush = nil
	switch {
	case q.state == verbs.Err:
		return false
	case !f.span.Valid(): // its region went meanwhile
		q.refuse(remoteAccess)
		return true
	case !ok:
		q.refuse(remoteOperational)
		return true
	}
	q.replyAndSave(reply{kind: replyEmpty, psn: r.psn, packets: 1, msn: r.msn + 1})
	r.psn = r.psn.Next()
	r.msn = (r.msn + 1) & 0xffffff
	if f.missed || r.early != nil && len(r.early.kept) > 0 {
		q.tellMissing()
	}
	return true
}

// duringFlush drops a request that comes while a FLUSH is carried out: that FLUSH once more, or
// one that follows and will be asked for.
func (q *QP) duringFlush(p *ib.Packet) Reason {
	if p.PSN == q.resp.psn {
		q.Device.Counters.Duplicates++
		return DropDuplicate
	}
	q.resp.flush.missed = true
	return DropSequence
}

// executeFlush takes a FLUSH. What was written before it is in ordinary memory already, visible
// to all processors; only persistence is still to be reached (IBTA annex A19).
func (q *QP) executeFlush(p *ib.Packet) outcome {
	var need verbs.Access
	if p.FETH.Placement&ib.PlacementGlobal != 0 {
		need |= verbs.FlushGlobal
	}
	if p.FETH.Placement&ib.PlacementPersistent != 0 {
		need |= verbs.FlushPersistent
	}
	if need == 0 || q.attr.Access&need != need || p.FETH.Selectivity > ib.SelectRegion || !q.resp.replies.room(q.attr.MaxDestRdAtomic) {
		return invalidRequest
	}
	pd, ok := q.domain(p)
	if !ok {
		return invalidRequest
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
