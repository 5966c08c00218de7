// SPDX-License-Identifier: Apache-2.0

package ibta

import (
	"github.com/ramjet-rdma/ramjet/internal/base/memory"
	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/wire/ib"
)

// duplicate handles a request that was executed before: its response was lost, or is late. SENDs
// and WRITEs are acknowledged again, READs execute again, and atomics get the saved result (IBTA
// 9.7.5.1.4).
func (q *QP) duplicate(p *ib.Packet) Reason {
	r := &q.resp
	q.Counts.Duplicates++
	q.lane.Counters.Duplicates++
	switch class := p.Opcode.Info().Class; {
	case class == ib.ClassReadRequest:
		return q.readAgain(p)
	case requestClasses[class].responds:
		q.answerAgain(p)
	case p.AckReq || p.Opcode.Info().Last:
		// Not beyond the last SEND or WRITE: a READ behind it may lack responses, and rxe takes an
		// acknowledgement of a READ's last PSN for the READ's completion.
		r.ack.acknowledge(r.plain)
	}
	return DropDuplicate
}

// replyAndSave responds to a request whose response the requester may request again. A requester
// has no more than MaxDestRdAtomic such requests outstanding, so older responses are dropped.
func (q *QP) replyAndSave(a reply) {
	a.msn &= 0xffffff
	saved := &q.resp.replies.saved
	for saved.Len() > 0 && saved.Len() >= int(q.Attr().MaxDestRdAtomic) {
		saved.PopFront()
	}
	kept := saved.PushBack()
	*kept = a
	kept.source = memory.Span{} // it is looked up again
	q.resp.reply(a)
}

// find returns the saved response that psn is part of, or nil.
func (r *replies) find(psn ib.PSN) *reply {
	for i := r.saved.Len() - 1; i >= 0; i-- {
		if a := r.saved.At(i); !psn.Before(a.psn) && psn.Sub(a.psn) < a.packets {
			return a
		}
	}
	return nil
}

// answerAgain repeats the saved response to a request that must not execute twice, if there is one.
func (q *QP) answerAgain(p *ib.Packet) {
	r := &q.resp
	a := r.replies.find(p.PSN)
	if a == nil || a.kind != requestClasses[p.Opcode.Info().Class].reply {
		return
	}
	answer := *a
	answer.again = true
	r.replies.dropFrom(p.PSN)
	r.reply(answer)
}

// readAgain answers a duplicate READ. It may request the bytes of the first one, or the rest of them
// from some packet on, with the same key (IBTA 9.7.5.1.4, 9.4.4). The queue pair and the key must
// still allow it. The requester has gone back, so it will request later responses again.
func (q *QP) readAgain(p *ib.Packet) Reason {
	r := &q.resp
	a := r.replies.find(p.PSN)
	if a == nil || a.kind != replyRead {
		return DropDuplicate
	}
	first, mtu := &a.asked, q.mtu()
	skipped := min(uint32(p.PSN.Sub(a.psn)*mtu), first.DMALen)
	if p.RETH.RKey != first.RKey || p.RETH.VA != first.VA+uint64(skipped) || p.RETH.DMALen > first.DMALen-skipped ||
		q.Attr().Access&verbs.RemoteRead == 0 {
		return DropAccess
	}
	s, v := q.readable(p)
	if v != accept {
		return DropAccess
	}
	asked := p.RETH
	r.replies.dropFrom(p.PSN)
	if r.replies.queue.Len() < int(q.Attr().MaxDestRdAtomic) {
		r.reply(reply{kind: replyRead, psn: p.PSN, packets: responses(asked.DMALen, mtu), again: true, msn: r.msn,
			asked: asked, source: s})
	}
	return DropDuplicate
}

// responses returns the number of response packets of a READ of n bytes.
func responses(n uint32, mtu int) int { return max(1, (int(n)+mtu-1)/mtu) }
