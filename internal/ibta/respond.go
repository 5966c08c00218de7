// SPDX-License-Identifier: Apache-2.0

package ibta

import (
	"github.com/ramjet-rdma/ramjet/internal/memory"
	"github.com/ramjet-rdma/ramjet/internal/queue"
	"github.com/ramjet-rdma/ramjet/wire/ib"
)

// ackState is the acknowledgement that is to go out; one says all (IBTA 9.7.5.1.2).
type ackState struct {
	pending  bool
	urgent   bool // a NAK: it does not wait for Batch.Acks
	psn      ib.PSN
	syndrome ib.Syndrome
	asked    int // requests that asked for it
}

func (a *ackState) acknowledge(psn ib.PSN) {
	if a.pending && a.urgent {
		return // a NAK acknowledges what is before it
	}
	asked := 1
	if a.pending {
		asked += a.asked
	}
	*a = ackState{pending: true, psn: psn, syndrome: ib.Acknowledge(ib.CreditsUnlimited), asked: asked}
}

func (a *ackState) nak(psn ib.PSN, s ib.Syndrome) {
	*a = ackState{pending: true, urgent: true, psn: psn, syndrome: s}
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
	again   bool // to a duplicate: the requester may have got the first answer, and gone on
	msn     uint32
	asked   ib.RETH     // READ: what the request named
	source  memory.Span // READ: what it stands for
	orig    uint64      // atomic: the word before the operation
}

// replies are the responses that are to go out, in order, and what was answered last, in case
// responses get lost.
type replies struct {
	queue queue.Ring[reply]
	saved queue.Ring[reply] // oldest first, MaxDestRdAtomic at most
}

// room says whether one more request may be outstanding (IBTA 9.7.3.1, responder resources).
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
		r.ack.pending = false // the response acknowledges what is before it
	}
}

// dropFrom forgets the responses at psn and later. A READ that psn is within goes as a
// whole: whoever asks for its rest has got what comes before.
func (r *replies) dropFrom(psn ib.PSN) {
	for r.queue.Len() > 0 {
		last := r.queue.At(r.queue.Len() - 1)
		if psn.Sub(last.psn) >= last.packets {
			return
		}
		r.queue.PopBack()
	}
}

// respond fills b with responses, and with a NAK.
func (q *QP) respond(b *Batch) {
	r, before := &q.resp, b.Len()
	for r.replies.queue.Len() > 0 {
		a := r.replies.queue.Front()
		if !q.responsePacket(a, b) || !q.responseMiddles(a, b) {
			return
		}
		if a.sent == a.packets {
			r.replies.queue.PopFront()
		}
	}
	if b.Len() == before && r.ack.pending && r.ack.urgent {
		q.acknowledge(b)
	}
}

// responsePacket appends the next packet of a; false: it does not fit.
func (q *QP) responsePacket(a *reply, b *Batch) bool {
	h, mtu := &q.req.header, q.mtu()
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
	h.BTH = ib.BTH{Opcode: q.transport().Join(op), PKey: q.pkey, DestQP: q.attr.DestQPN, PSN: a.psn.Add(a.sent)}
	h.AETH = ib.AETH{Syndrome: ib.Acknowledge(ib.CreditsUnlimited), MSN: a.msn}
	h.AtomicAck.Orig = a.orig
	if !b.fits(q.path, packetSize(h.Opcode, n), h.DestQP) {
		return false
	}
	return q.responded(a, n, b.addSpan(q.path, h, &a.source, off, n))
}

// responseMiddles appends packets of a for as long as they differ from the one before in
// their PSN only; false: the region went.
func (q *QP) responseMiddles(a *reply, b *Batch) bool {
	h, mtu := &q.req.header, q.mtu()
	if h.Opcode.Operation() != ib.OpReadResponseMiddle {
		return true
	}
	for size := packetSize(h.Opcode, mtu); a.sent < a.packets-1 && b.fits(q.path, size, h.DestQP); {
		h.PSN = h.PSN.Next()
		if !q.responded(a, mtu, b.repeatSpan(h, &a.source, a.sent*mtu, mtu)) {
			return false
		}
	}
	return true
}

// responded notes that a packet of a with n bytes was added. It was not if the region went
// while it was being read.
func (q *QP) responded(a *reply, n int, added bool) bool {
	if !added {
		q.resp.replies.queue.Clear()
		q.resp.ack.nak(a.psn.Add(a.sent), ib.NAK(ib.NAKRemoteOperationalError))
		q.Device.Counters.RemoteErrors++
		q.enterError()
		return false
	}
	a.sent++
	q.Device.Counters.SentPackets++
	q.Device.Counters.SentBytes += uint64(n)
	return true
}

// acknowledge appends the acknowledgement that is due, unless a response is to go first.
func (q *QP) acknowledge(b *Batch) {
	r := &q.resp
	if !r.ack.pending || r.replies.queue.Len() > 0 {
		return
	}
	h := &q.req.header
	h.BTH = ib.BTH{Opcode: q.transport().Join(ib.OpAck), PKey: q.pkey, DestQP: q.attr.DestQPN, PSN: r.ack.psn}
	h.AETH = ib.AETH{Syndrome: r.ack.syndrome, MSN: r.msn}
	if !b.fits(q.path, packetSize(h.Opcode, 0), h.DestQP) {
		return
	}
	b.addSpan(q.path, h, nil, 0, 0)
	r.ack.pending = false
	q.Device.Counters.AcksSent++
	q.Device.Counters.SentPackets++
}
