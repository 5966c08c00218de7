// SPDX-License-Identifier: Apache-2.0

package ibta

import (
	"github.com/ramjet-rdma/ramjet/internal/memory"
	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/wire/ib"
)

// duplicate handles a request that was carried out before: its answer was lost, or is late
// (IBTA 9.7.5.1.4). SENDs and WRITEs are acknowledged again, READs run again, atomics get
// the saved result.
func (q *QP) duplicate(p *ib.Packet) Reason {
	r := &q.resp
	q.Device.Counters.Duplicates++
	switch class := p.Opcode.Info().Class; {
	case class == ib.ClassReadRequest:
		return q.readAgain(p)
	case answered(class):
		q.answerAgain(p)
	case p.AckReq || p.Opcode.Info().Last:
		// Not beyond the last SEND or WRITE: a READ behind it may lack responses, and rxe
		// takes an acknowledgement of a READ's last PSN for the READ's completion.
		r.ack.acknowledge(r.plain)
	}
	return DropDuplicate
}

// replyAndSave answers a request whose answer the requester may ask for again. A requester
// has no more than MaxDestRdAtomic of those outstanding, so that older ones are forgotten.
func (q *QP) replyAndSave(a reply) {
	a.msn &= 0xffffff
	saved := &q.resp.replies.saved
	for saved.Len() > 0 && saved.Len() >= int(q.attr.MaxDestRdAtomic) {
		saved.PopFront()
	}
	kept := saved.PushBack()
	*kept = a
	kept.source = memory.Span{} // it is looked for again
	q.resp.reply(a)
}

// find returns the saved answer that psn is part of, nil: there is none.
func (r *replies) find(psn ib.PSN) *reply {
	for i := r.saved.Len() - 1; i >= 0; i-- {
		if a := r.saved.At(i); !psn.Before(a.psn) && psn.Sub(a.psn) < a.packets {
			return a
		}
	}
	return nil
}

// kindOf returns how requests of a class are answered.
func kindOf(c ib.Class) replyKind {
	switch c {
	case ib.ClassReadRequest:
		return replyRead
	case ib.ClassAtomic:
		return replyAtomic
	}
	return replyEmpty
}

// answerAgain sends the saved answer of a request that must not run twice, if there is one.
func (q *QP) answerAgain(p *ib.Packet) {
	r := &q.resp
	a := r.replies.find(p.PSN)
	if a == nil || a.kind != kindOf(p.Opcode.Info().Class) {
		return
	}
	answer := *a
	answer.again = true
	r.replies.dropFrom(p.PSN)
	r.reply(answer)
}

// readAgain answers a duplicate READ. It may ask for what the first one asked for, or for the
// rest of that from some packet on, with the same key (IBTA 9.7.5.1.4, 9.4.4); the queue pair
// and the key must still allow it. The requester has gone back: what was to follow will be
// asked for again.
func (q *QP) readAgain(p *ib.Packet) Reason {
	r := &q.resp
	a := r.replies.find(p.PSN)
	if a == nil || a.kind != replyRead {
		return DropDuplicate
	}
	first, mtu := &a.asked, q.mtu()
	skipped := min(uint32(p.PSN.Sub(a.psn)*mtu), first.DMALen)
	if p.RETH.RKey != first.RKey || p.RETH.VA != first.VA+uint64(skipped) || p.RETH.DMALen > first.DMALen-skipped ||
		q.attr.Access&verbs.RemoteRead == 0 {
		return DropAccess
	}
	s, v := q.readable(p)
	if v != accept {
		return DropAccess
	}
	asked := p.RETH
	r.replies.dropFrom(p.PSN)
	if r.replies.queue.Len() < int(q.attr.MaxDestRdAtomic) {
		r.reply(reply{kind: replyRead, psn: p.PSN, packets: responses(asked.DMALen, mtu), again: true, msn: r.msn, asked: asked, source: s})
	}
	return DropDuplicate
}

// responses returns how many packets answer a READ of n bytes.
func responses(n uint32, mtu int) int { return max(1, (int(n)+mtu-1)/mtu) }
