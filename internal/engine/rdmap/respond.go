// SPDX-License-Identifier: Apache-2.0

package rdmap

import (
	"github.com/ramjet-rdma/ramjet/internal/base/memory"
	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/wire/iwarp"
)

// response is the response to a READ or an atomic request of the peer.
type response struct {
	stag iwarp.STag  // READ: where the peer wants the data
	to   uint64      //
	span memory.Span // READ: the requested memory
	off  int         // bytes of it that are in FPDUs

	atomic   bool
	id       uint32
	original uint64
}

// respond continues the oldest response. It returns false if there is no room.
func (q *QP) respond(b *Batch) bool {
	t := &q.tx
	r := t.resp.Front()
	if r.atomic {
		if b.full() {
			return false
		}
		var data [iwarp.AtomicResponseLen]byte
		a := iwarp.AtomicResponse{ID: r.id, Original: r.original}
		h := iwarp.Header{Last: true, Opcode: iwarp.OpAtomicResponse, Queue: iwarp.QueueAtomicResponse,
			MSN: t.msn[iwarp.QueueAtomicResponse]}
		t.msn[iwarp.QueueAtomicResponse]++
		q.message(b, h, a.Append(data[:0]))
		t.resp.PopFront()
		return true
	}
	for q.respondPart(b, r) {
		if r.off == r.span.Len() {
			if a := q.Device.Memory.Accesses(); a != nil && r.off > 0 {
				a.End(q.Num, verbs.OpRead, r.span.Bytes(), true)
			}
			t.answering = false
			*r = response{}
			t.resp.PopFront()
			return true
		}
	}
	return false
}

// respondPart appends the next segment of the response to a READ. It returns false if there is no
// room, or its memory is no longer mapped.
func (q *QP) respondPart(b *Batch, r *response) bool {
	if b.full() {
		return false
	}
	h := iwarp.Header{Tagged: true, Opcode: iwarp.OpReadResponse, STag: r.stag, TO: r.to + uint64(r.off)}
	n := min(r.span.Len()-r.off, q.ULPDU-h.Len())
	h.Last = r.off+n == r.span.Len()
	q.tx.one.One(r.span.Sub(r.off, n))
	if !r.span.Valid() || !q.segment(b, h, &q.tx.one, n) {
		q.terminateLocal()
		q.fatal()
		return false
	}
	q.tx.answering = true
	q.Counts.SentBytes += uint64(n)
	r.off += n
	return true
}
