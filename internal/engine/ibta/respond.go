// SPDX-License-Identifier: Apache-2.0

package ibta

import (
	"github.com/ramjet-rdma/ramjet/internal/base/clock"
	"github.com/ramjet-rdma/ramjet/internal/base/memory"
	"github.com/ramjet-rdma/ramjet/internal/base/queue"
	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/wire/ib"
)

// ackState is the pending acknowledgement; one covers everything before it (IBTA 9.7.5.1.2).
type ackState struct {
	pending  bool
	urgent   bool // a NAK: it does not wait for Batch.Acks
	psn      ib.PSN
	syndrome ib.Syndrome
	asked    int // requests that asked for it
}

func (a *ackState) acknowledge(psn ib.PSN) {
	asked := a.waiting() + 1
	if a.pending && a.urgent {
		a.asked = asked // a NAK acknowledges the packets before its PSN
		return
	}
	*a = ackState{pending: true, psn: psn, syndrome: ib.Acknowledge(ib.CreditsUnlimited), asked: asked}
}

func (a *ackState) nak(psn ib.PSN, s ib.Syndrome) {
	*a = ackState{pending: true, urgent: true, psn: psn, syndrome: s, asked: a.waiting()}
}

// withdraw withdraws the NAK for psn, if it has not been sent. The acknowledgement of plain
// replaces it if one was requested. It reports whether there was such a NAK.
func (a *ackState) withdraw(psn, plain ib.PSN) bool {
	if !a.pending || a.psn != psn || a.syndrome != ib.NAK(ib.NAKPSNSequenceError) {
		return false
	}
	*a = ackState{pending: a.asked > 0, psn: plain, syndrome: ib.Acknowledge(ib.CreditsUnlimited), asked: a.asked}
	return true
}

// waiting returns how many requests that asked for an acknowledgement have not got it.
func (a *ackState) waiting() int {
	if !a.pending {
		return 0
	}
	return a.asked
}

type replyKind uint8

const (
	replyRead   replyKind = iota
	replyAtomic           // to a compare-and-swap or fetch-and-add
	replyEmpty            // a READ response without data: atomic write, flush
)

// reply is a response, or the stream of responses to one READ.
type reply struct {
	kind    replyKind
	psn     ib.PSN
	packets int
	sent    int
	again   bool // to a duplicate: the requester may have got the first response, and gone on
	msn     uint32
	asked   ib.RETH     // READ: the memory that the request named
	source  memory.Span // READ: that memory
	orig    uint64      // atomic: the previous value
}

// replies are the responses to send, in order, and the last responses sent, in case they get lost.
type replies struct {
	queue queue.Ring[reply]
	saved queue.Ring[reply] // oldest first, MaxDestRdAtomic at most
}

// room reports whether one more request may be outstanding (IBTA 9.7.3.1, responder resources).
func (r *replies) room(depth uint8) bool {
	if r.queue.Len() < int(depth) {
		return true
	}
	n := 0
	for i := range r.queue.Len() {
		if !r.queue.At(i).again {
			n++
		}
	}
	return n < int(depth)
}

func (r *responder) reply(a reply) {
	a.msn &= 0xffffff
	*r.replies.queue.PushBack() = a
	if r.ack.pending && !r.ack.urgent && r.ack.psn.Before(a.psn) {
		r.ack.pending = false // the response acknowledges everything before it
	}
}

// dropFrom drops the responses at psn and later. A READ that contains psn is dropped as a whole: a
// requester that requests its rest has got the packets before.
func (r *replies) dropFrom(psn ib.PSN) {
	for r.queue.Len() > 0 {
		last := r.queue.At(r.queue.Len() - 1)
		if psn.Sub(last.psn) >= last.packets {
			return
		}
		r.queue.PopBack()
	}
}

// respond fills b with responses, and with a NAK. Responses to READs leave as congestion control lets them.
func (q *QP) respond(now clock.Time, b *Batch) {
	r, before := &q.resp, b.Len()
	if q.lost != nil {
		again := q.respondAgain(now, b)
		if q.av != nil && q.share.regulator().burst > 0 {
			q.av.Flow.responded(now, &q.share)
		}
		if !again {
			return
		}
	}
	if r.replies.queue.Len() > 0 {
		q.respondReplies(now, b)
		if q.av != nil && q.share.regulator().burst > 0 {
			q.av.Flow.responded(now, &q.share)
		}
		if r.replies.queue.Len() > 0 {
			return
		}
	}
	if b.Len() == before && r.ack.pending && r.ack.urgent {
		q.acknowledge(b)
	}
}

// respondReplies fills b with responses.
func (q *QP) respondReplies(now clock.Time, b *Batch) {
	r := &q.resp
	for r.replies.queue.Len() > 0 {
		a := r.replies.queue.Front()
		if a.kind == replyRead && q.tooEarly(now) ||
			(!q.responsePacket(a, b) || !q.responseMiddles(now, a, b)) && !a.withdrawn() {
			return
		}
		if a.sent == a.packets {
			if w := q.Device.Memory.Accesses(); w != nil && a.kind == replyRead && !a.again && a.source.Len() > 0 {
				w.End(q.Num, verbs.OpRead, a.source.Bytes(), true)
			}
			r.replies.queue.PopFront()
		}
	}
}

// tooEarly reports whether the next response to a READ has to wait, and sets the timer for it.
func (q *QP) tooEarly(now clock.Time) bool {
	g := q.share.regulator()
	if !g.early(now, q.share.packet) {
		return false
	}
	if g.allows.Next > now {
		q.timers.set(timerRespond, g.allows.Next)
	}
	return true
}

// withdrawn reports whether a repeats an answer to a READ whose memory has gone meanwhile.
func (a *reply) withdrawn() bool { return a.again && a.sent == a.packets }

// responsePacket appends the next packet of a. It returns false if it does not fit.
func (q *QP) responsePacket(a *reply, b *Batch) bool {
	h, mtu := &q.lane.header, q.mtu()
	first, last := a.sent == 0, a.sent+1 == a.packets
	op := ib.OpReadResponseMiddle
	switch {
	case a.kind == replyAtomic:
		op = ib.OpAtomicAck
	case first && last:
		op = ib.OpReadResponseOnly
	case first:
		op = ib.OpReadResponseFirst
	case last:
		op = ib.OpReadResponseLast
	}
	off := a.sent * mtu
	n := min(mtu, a.source.Len()-off)
	h.BTH = ib.BTH{Opcode: q.transport().Join(op), PKey: q.PKey(), DestQP: q.Attr().DestQPN, PSN: a.psn.Add(a.sent)}
	h.AETH = ib.AETH{Syndrome: ib.Acknowledge(ib.CreditsUnlimited), MSN: a.msn}
	h.AtomicAck.Orig = a.orig
	if !b.fits(q.av, packetSize(h.Opcode, n), h.DestQP) {
		return false
	}
	return q.responded(a, n, b.addSpan(q.av, h, &a.source, off, n))
}

// responseMiddles appends packets of a as long as they differ from the previous one only in PSN. It
// returns false if the region was deregistered.
func (q *QP) responseMiddles(now clock.Time, a *reply, b *Batch) bool {
	h, mtu, g := &q.lane.header, q.mtu(), q.share.regulator()
	if h.Opcode.Operation() != ib.OpReadResponseMiddle {
		return true
	}
	for size := packetSize(h.Opcode, mtu); a.sent < a.packets-1 && !g.early(now, q.share.packet) &&
		b.fits(q.av, size, h.DestQP); {
		h.PSN = h.PSN.Next()
		if !q.responded(a, mtu, b.repeatSpan(h, &a.source, a.sent*mtu, mtu)) {
			return false
		}
	}
	return true
}

// responded records that a packet of a with n bytes was added. added is false if the region was
// deregistered, or the window ended, before it was read.
func (q *QP) responded(a *reply, n int, added bool) bool {
	if !added && a.again {
		// The READ was valid and has been answered. The requester may have had that answer, and ended the
		// window itself. A duplicate whose key is not valid any more gets no answer (IBTA 9.7.5.1.4).
		a.sent = a.packets
		return false
	}
	if !added {
		q.resp.replies.queue.Clear()
		q.resp.ack.nak(a.psn.Add(a.sent), ib.NAK(ib.NAKRemoteOperationalError))
		q.lane.Counters.RemoteErrors++
		q.enterError()
		return false
	}
	a.sent++
	if a.kind == replyRead {
		q.av.Flow.responds(&q.share, n+q.overhead())
	}
	q.Counts.SentPackets++
	q.Counts.SentBytes += uint64(n)
	q.lane.Counters.SentPackets++
	q.lane.Counters.SentBytes += uint64(n)
	return true
}

// acknowledge appends the pending acknowledgement, unless a response has to go first.
func (q *QP) acknowledge(b *Batch) {
	r := &q.resp
	if !r.ack.pending || r.replies.queue.Len() > 0 {
		return
	}
	h := &q.lane.header
	h.BTH = ib.BTH{Opcode: q.transport().Join(ib.OpAck), PKey: q.PKey(), DestQP: q.Attr().DestQPN, PSN: r.ack.psn}
	h.AETH = ib.AETH{Syndrome: r.ack.syndrome, MSN: r.msn}
	if !b.fits(q.av, packetSize(h.Opcode, 0), h.DestQP) {
		return
	}
	b.addSpan(q.av, h, nil, 0, 0)
	r.ack.pending = false
	q.Counts.SentPackets++
	q.lane.Counters.AcksSent++
	if r.ack.syndrome == ib.NAK(ib.NAKPSNSequenceError) {
		q.lane.Counters.NAKSent++
	}
	q.lane.Counters.SentPackets++
}
