// SPDX-License-Identifier: Apache-2.0

package rdmap

import (
	"encoding/binary"
	"slices"

	"github.com/ramjet-rdma/ramjet/internal/memory"
	"github.com/ramjet-rdma/ramjet/internal/queue"
	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/wire/iwarp"
)

// sender turns work requests and responses into FPDUs. Messages are sent whole, one after
// the other; responses and work requests take turns.
type sender struct {
	off       uint32 // bytes of work request next that are in FPDUs
	midway    bool   // work request next has begun and is to be continued before anything else
	gather    memory.Cursor
	gathering bool

	queued uint64 // bytes of the stream that were put into batches
	sent   uint64 // bytes that TCP took
	msn    [iwarp.Queues]uint32
	atomic uint32 // id of the last atomic request

	resp      queue.Ring[response]
	one       memory.Cursor
	answering bool // the first response has begun
	turn      bool // a response goes next

	ready Ready // what is to be said
	await bool  // send nothing before the peer does
}

func (t *sender) begin(p *Params) {
	resp := t.resp
	resp.Clear()
	*t = sender{gather: t.gather, one: t.one, resp: resp, ready: p.SayReady, await: p.AwaitReady || p.Pause}
	for i := range t.msn {
		t.msn[i] = 1
	}
}

func (t *sender) stop() {
	t.resp.Clear()
	t.answering, t.midway, t.gathering, t.ready = false, false, false, NotReady
	t.gather.Reset()
}

// NextFPDUs appends to b what is to be sent next; false: there is nothing.
func (q *QP) NextFPDUs(b *Batch) bool {
	before := b.Len()
	t := &q.tx
	if !q.up || t.await && q.term == nil {
		return false
	}
	if t.ready != NotReady && !t.midway && !t.answering {
		q.sayReady(b)
	}
	for q.term == nil && q.state >= verbs.RTR && q.state <= verbs.SQD {
		answer := t.resp.Len() > 0 && !t.midway && (t.answering || t.turn || !q.canRequest())
		if answer {
			if !q.respond(b) {
				break
			}
			t.turn = t.answering
			continue
		}
		if !q.request(b) {
			if t.resp.Len() > 0 && !t.midway && !b.full() && q.canAnswer() {
				t.turn = true
				continue
			}
			break
		}
		t.turn = !t.midway
	}
	if q.term != nil && !b.full() {
		q.sendTerminate(b)
	}
	return b.Len() > before
}

// sayReady appends the message that RFC 6581 has come first.
func (q *QP) sayReady(b *Batch) {
	t := &q.tx
	if t.ready == ReadyWrite {
		q.segment(b, iwarp.Header{Tagged: true, Last: true, Opcode: iwarp.OpWrite}, nil, 0)
	} else {
		*q.reads.PushBack() = readOp{ready: true}
		q.message(b, t.readHeader(), (&iwarp.ReadRequest{}).Append(nil))
	}
	t.ready = NotReady
}

// readHeader is that of the next READ.
func (t *sender) readHeader() iwarp.Header {
	h := iwarp.Header{Last: true, Opcode: iwarp.OpReadRequest, Queue: iwarp.QueueReadRequest, MSN: t.msn[iwarp.QueueReadRequest]}
	t.msn[iwarp.QueueReadRequest]++
	return h
}

// Sent takes note of n bytes that TCP took.
func (q *QP) Sent(n int) {
	q.tx.sent += uint64(n)
	if q.state == verbs.RTS || q.state == verbs.SQD {
		q.retire()
	}
}

// canRequest says whether a work request could go on, were there room.
func (q *QP) canRequest() bool {
	if q.next >= q.sq.Len() || q.state != verbs.RTS && q.state != verbs.SQD {
		return false
	}
	w := q.sq.At(q.next)
	return w.status == verbs.Success && (w.begun || q.mayBegin(w)) && (!w.row().response || q.reads.Len() < q.depth())
}

// canAnswer says whether the first response could be sent now, whatever room there is.
func (q *QP) canAnswer() bool { return !q.canRequest() }

// depth is how many READs and atomics may be in flight.
func (q *QP) depth() int { return min(int(q.ORD), int(q.attr.MaxRdAtomic)) }

// mayBegin holds back a work request with a fence until all responses have come, and in SQD
// all that were not begun before.
func (q *QP) mayBegin(w *sendWQE) bool {
	return q.state != verbs.SQD && (w.flags&verbs.Fence == 0 || q.reads.Len() == 0)
}

// request continues work request next; false: nothing of it can be sent now.
func (q *QP) request(b *Batch) bool {
	if !q.canRequest() || b.full() {
		if q.next < q.sq.Len() && q.next == 0 {
			q.retire() // it may have to fail
		}
		return false
	}
	w := q.sq.At(q.next)
	w.begun = true
	switch w.op {
	case verbs.LocalInv, verbs.BindMW:
		q.local(w)
		return true
	case verbs.Read:
		return q.requestRead(b, w)
	case verbs.CompareSwap, verbs.FetchAdd:
		return q.requestAtomic(b, w)
	}
	return q.sendMessage(b, w)
}

// finish notes that work request next is in FPDUs as a whole.
func (q *QP) finish(w *sendWQE) {
	w.end = q.tx.queued
	q.next++
	q.tx.off, q.tx.midway, q.tx.gathering = 0, false, false
	if q.next == 1 && w.end <= q.tx.sent {
		q.retire() // nothing of it has to be sent
	}
}

// failHere has work request next fail when it is the oldest.
func (q *QP) failHere(w *sendWQE, status verbs.Status) {
	w.status = status
	q.tx.midway, q.tx.gathering = false, false
	q.retire()
}

// local carries out a work request that sends nothing.
func (q *QP) local(w *sendWQE) {
	ok := false
	switch t := q.Device.Memory; w.op {
	case verbs.LocalInv:
		ok = t.Invalidate(q.PD, q.Num, w.key)
	case verbs.BindMW:
		ok = t.Bind(q.PD, q.Num, w.bind.window, w.bind.region, w.bind.rkey, w.bind.addr, w.bind.length, w.bind.access)
	}
	if !ok {
		q.failHere(w, verbs.MWBindError)
		return
	}
	q.finish(w)
}

// gatherOf sets the gathering to the memory of a work request.
func (q *QP) gatherOf(w *sendWQE) bool {
	t := &q.tx
	if t.gathering {
		return true
	}
	t.gathering = true
	if w.useCopy {
		t.gather.Reset()
		t.gather.Add(memory.Inline(w.inline))
		return true
	}
	return t.gather.Set(q.Device.Memory, q.PD, w.sgl, false)
}

// sendMessage appends the next segments of a SEND or WRITE.
func (q *QP) sendMessage(b *Batch, w *sendWQE) bool {
	t := &q.tx
	if !q.gatherOf(w) {
		q.failHere(w, verbs.LocalProtectionError)
		return false
	}
	tagged := w.op == verbs.Write || w.op == verbs.WriteImm
	for !b.full() {
		h := iwarp.Header{Tagged: tagged}
		if tagged {
			h.STag, h.TO = iwarp.STag(w.remote.Key), w.remote.Addr+uint64(t.off)
		} else {
			h.Opcode, h.MSN, h.MO = sendOpcode(w), t.msn[iwarp.QueueSend], t.off
			if w.op == verbs.SendInv {
				h.STag = iwarp.STag(w.key)
			}
		}
		n := min(int(w.length-t.off), q.Segment-h.Len())
		h.Last = t.off+uint32(n) == w.length
		t.midway = true
		if !q.segment(b, h, &t.gather, n) {
			q.failHere(w, verbs.LocalProtectionError)
			return false
		}
		t.off += uint32(n)
		if !h.Last {
			continue
		}
		if !tagged {
			t.msn[iwarp.QueueSend]++
		}
		if w.op == verbs.WriteImm {
			q.immediate(b, w)
		}
		q.finish(w)
		return true
	}
	return true
}

func sendOpcode(w *sendWQE) iwarp.Opcode {
	op := iwarp.OpSend
	if w.op == verbs.SendInv {
		op = iwarp.OpSendInv
	}
	if w.flags&verbs.Solicited != 0 {
		op += iwarp.OpSendSE - iwarp.OpSend
	}
	return op
}

// immediate appends the message with the immediate data, which stand in its first 4 bytes.
func (q *QP) immediate(b *Batch, w *sendWQE) {
	h := iwarp.Header{Last: true, Opcode: iwarp.OpImmediate, MSN: q.tx.msn[iwarp.QueueSend]}
	if w.flags&verbs.Solicited != 0 {
		h.Opcode = iwarp.OpImmediateSE
	}
	q.tx.msn[iwarp.QueueSend]++
	var data [iwarp.ImmediateLen]byte
	binary.BigEndian.PutUint32(data[:], w.imm)
	q.message(b, h, data[:])
}

// requestRead appends the request for the next piece of a READ's memory: the data of one
// request go to one place.
func (q *QP) requestRead(b *Batch, w *sendWQE) bool {
	t := &q.tx
	if w.asked == 0 {
		w.sgl = slices.DeleteFunc(w.sgl, func(s verbs.SGE) bool { return s.Length == 0 })
	}
	r := iwarp.ReadRequest{SrcSTag: iwarp.STag(w.remote.Key), SrcTO: w.remote.Addr}
	op := readOp{wqe: q.popped + uint64(q.next)}
	if w.length > 0 {
		sge := &w.sgl[w.asked]
		s, ok := q.Device.Memory.Local(q.PD, sge, true)
		if !ok {
			q.failHere(w, verbs.LocalProtectionError)
			return false
		}
		for i := range w.asked {
			r.SrcTO += uint64(w.sgl[i].Length)
		}
		r.SinkSTag, r.SinkTO, r.Size = iwarp.STag(sge.LKey), sge.Addr, sge.Length
		op.span = s
	}
	op.stag, op.to, op.size = r.SinkSTag, r.SinkTO, r.Size
	*q.reads.PushBack() = op
	var data [iwarp.ReadRequestLen]byte
	q.message(b, t.readHeader(), r.Append(data[:0]))
	w.asked++
	if w.asked >= len(w.sgl) {
		q.finish(w)
	}
	return true
}

func (q *QP) requestAtomic(b *Batch, w *sendWQE) bool {
	t := &q.tx
	s, ok := memory.Span{}, true
	for i := range w.sgl { // all but one are empty, as the length is 8
		if w.sgl[i].Length == 8 {
			s, ok = q.Device.Memory.Local(q.PD, &w.sgl[i], true)
		}
	}
	if !ok || s.Len() != 8 {
		q.failHere(w, verbs.LocalProtectionError)
		return false
	}
	t.atomic++
	r := iwarp.AtomicRequest{ID: t.atomic, STag: iwarp.STag(w.remote.Key), TO: w.remote.Addr, Data: w.swap}
	if w.op == verbs.CompareSwap {
		r.Op, r.Mask, r.Compare, r.CompareMask = iwarp.CompareSwap, ^uint64(0), w.compare, ^uint64(0)
	}
	*q.reads.PushBack() = readOp{wqe: q.popped + uint64(q.next), atomic: true, id: r.ID, span: s}
	var data [iwarp.AtomicRequestLen]byte
	h := iwarp.Header{Last: true, Opcode: iwarp.OpAtomicRequest, Queue: iwarp.QueueReadRequest, MSN: t.msn[iwarp.QueueReadRequest]}
	t.msn[iwarp.QueueReadRequest]++
	q.message(b, h, r.Append(data[:0]))
	w.asked++
	q.finish(w)
	return true
}
