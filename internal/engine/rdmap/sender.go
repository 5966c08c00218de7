// SPDX-License-Identifier: Apache-2.0

package rdmap

import (
	"encoding/binary"
	"slices"

	"github.com/ramjet-rdma/ramjet/internal/base/memory"
	"github.com/ramjet-rdma/ramjet/internal/base/queue"
	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/wire/iwarp"
)

// sender turns work requests and responses into FPDUs. Messages are sent as a whole, one after the
// other. Responses and work requests alternate.
type sender struct {
	off       uint32 // bytes of work request next that are in FPDUs
	inMessage bool   // work request next has begun and must be continued before anything else
	gather    memory.Cursor
	gathering bool

	queued uint64 // bytes of the stream that were put into batches
	sent   uint64 // bytes that TCP took
	msn    [iwarp.Queues]uint32
	atomic uint32 // id of the last atomic request

	resp         queue.Ring[response]
	one          memory.Cursor
	answering    bool // the first response has begun
	responseNext bool // a response goes next

	rtr   RTR  // the ready-to-receive message to send
	await bool // send nothing before the peer does
}

func (t *sender) begin(p *Params) {
	resp := t.resp
	resp.Clear()
	*t = sender{gather: t.gather, one: t.one, resp: resp, rtr: p.SendRTR, await: p.AwaitRTR || p.Pause}
	for i := range t.msn {
		t.msn[i] = 1
	}
}

func (t *sender) stop() {
	t.resp.Clear()
	t.answering, t.inMessage, t.gathering, t.rtr = false, false, false, NoRTR
	t.gather.Reset()
}

// NextFPDUs appends the next FPDUs to b; false: there is none.
func (q *QP) NextFPDUs(b *Batch) bool {
	before := b.Len()
	t := &q.tx
	if !q.up || t.await && q.terminateMsg == nil {
		return false
	}
	if t.rtr != NoRTR && !t.inMessage && !t.answering {
		q.sendRTR(b)
	}
	for q.terminateMsg == nil && q.State() >= verbs.StateRTR && q.State() <= verbs.StateSQD {
		answer := t.resp.Len() > 0 && !t.inMessage && (t.answering || t.responseNext || !q.canRequest())
		if answer {
			if !q.respond(b) {
				break
			}
			t.responseNext = t.answering
			continue
		}
		if !q.request(b) {
			if t.resp.Len() > 0 && !t.inMessage && !b.full() && q.canAnswer() {
				t.responseNext = true
				continue
			}
			break
		}
		t.responseNext = !t.inMessage
	}
	if q.terminateMsg != nil && !b.full() {
		q.sendTerminate(b)
	}
	return b.Len() > before
}

// sendRTR appends the ready-to-receive message, which comes first (RFC 6581).
func (q *QP) sendRTR(b *Batch) {
	t := &q.tx
	if t.rtr == RTRWrite {
		q.segment(b, iwarp.Header{Tagged: true, Last: true, Opcode: iwarp.OpWrite}, nil, 0)
	} else {
		*q.reads.PushBack() = readOp{rtr: true}
		q.message(b, t.readHeader(), (&iwarp.ReadRequest{}).Append(nil))
	}
	t.rtr = NoRTR
}

// readHeader returns the header of the next READ request.
func (t *sender) readHeader() iwarp.Header {
	h := iwarp.Header{Last: true, Opcode: iwarp.OpReadRequest, Queue: iwarp.QueueReadRequest,
		MSN: t.msn[iwarp.QueueReadRequest]}
	t.msn[iwarp.QueueReadRequest]++
	return h
}

// Sent records that TCP took n bytes.
func (q *QP) Sent(n int) {
	q.tx.sent += uint64(n)
	if q.State() == verbs.StateRTS || q.State() == verbs.StateSQD {
		q.retire()
	}
}

// canRequest reports whether a work request could continue if there were room.
func (q *QP) canRequest() bool {
	if q.next >= q.sq.Len() || q.State() != verbs.StateRTS && q.State() != verbs.StateSQD {
		return false
	}
	w := q.sq.At(q.next)
	return w.Status == verbs.StatusSuccess && (w.begun || q.mayBegin(w)) && (!w.Responds() || q.reads.Len() < q.depth())
}

// canAnswer reports whether the first response could be sent now if there were room.
func (q *QP) canAnswer() bool { return !q.canRequest() }

// depth returns how many READs and atomics may be in flight.
func (q *QP) depth() int { return min(int(q.ORD), int(q.Attr().MaxRdAtomic)) }

// mayBegin holds back a work request with a fence until all responses have arrived, and in SQD all
// that were not begun before.
func (q *QP) mayBegin(w *sendWQE) bool {
	return q.State() != verbs.StateSQD && (w.Flags&verbs.Fence == 0 || q.reads.Len() == 0)
}

// request continues work request next. It returns false if nothing of it can be sent now.
func (q *QP) request(b *Batch) bool {
	if !q.canRequest() || b.full() {
		if q.next < q.sq.Len() && q.next == 0 {
			q.retire() // it may have to fail
		}
		return false
	}
	w := q.sq.At(q.next)
	w.begun = true
	switch w.Op {
	case verbs.OpLocalInv, verbs.OpBindMW:
		q.local(w)
		return true
	case verbs.OpRead:
		return q.requestRead(b, w)
	case verbs.OpCompareSwap, verbs.OpFetchAdd:
		return q.requestAtomic(b, w)
	}
	return q.sendMessage(b, w)
}

// finish records that work request next is completely in FPDUs.
func (q *QP) finish(w *sendWQE) {
	w.end = q.tx.queued
	q.next++
	q.tx.off, q.tx.inMessage, q.tx.gathering = 0, false, false
	if q.next == 1 && w.end <= q.tx.sent {
		q.retire() // nothing of it has to be sent
	}
}

// failWhenOldest makes work request next fail when it is the oldest.
func (q *QP) failWhenOldest(w *sendWQE, status verbs.Status) {
	w.Status = status
	q.tx.inMessage, q.tx.gathering = false, false
	q.retire()
}

// local executes a work request that sends nothing.
func (q *QP) local(w *sendWQE) {
	if !q.DoLocal(&w.SendWQE) {
		q.failWhenOldest(w, w.Status)
		return
	}
	q.finish(w)
}

// setGather points the gather cursor at the memory of a work request.
func (q *QP) setGather(w *sendWQE) bool {
	t := &q.tx
	if t.gathering {
		return true
	}
	t.gathering = true
	if w.Copied {
		t.gather.Reset()
		t.gather.Add(memory.Inline(w.Inline))
		return true
	}
	return t.gather.Set(q.Device.Memory, q.PD, w.SGL, false)
}

// sendMessage appends the next segments of a SEND or WRITE.
func (q *QP) sendMessage(b *Batch, w *sendWQE) bool {
	t := &q.tx
	if !q.setGather(w) {
		q.failWhenOldest(w, verbs.StatusLocalProtectionError)
		return false
	}
	tagged := w.Op == verbs.OpWrite || w.Op == verbs.OpWriteImm
	for !b.full() {
		h := iwarp.Header{Tagged: tagged}
		if tagged {
			h.STag, h.TO = iwarp.STag(w.Remote.Key), w.Remote.Addr+uint64(t.off)
		} else {
			h.Opcode, h.MSN, h.MO = sendOpcode(w), t.msn[iwarp.QueueSend], t.off
			if w.Op == verbs.OpSendInv {
				h.STag = iwarp.STag(w.Key)
			}
		}
		n := min(int(w.Length-t.off), q.ULPDU-h.Len())
		h.Last = t.off+uint32(n) == w.Length
		t.inMessage = true
		if !q.segment(b, h, &t.gather, n) {
			q.failWhenOldest(w, verbs.StatusLocalProtectionError)
			return false
		}
		t.off += uint32(n)
		if !h.Last {
			continue
		}
		if !tagged {
			t.msn[iwarp.QueueSend]++
		}
		if w.Op == verbs.OpWriteImm {
			q.immediate(b, w)
		}
		q.finish(w)
		return true
	}
	return true
}

func sendOpcode(w *sendWQE) iwarp.Opcode {
	op := iwarp.OpSend
	if w.Op == verbs.OpSendInv {
		op = iwarp.OpSendInv
	}
	if w.Flags&verbs.Solicited != 0 {
		op += iwarp.OpSendSE - iwarp.OpSend
	}
	return op
}

// immediate appends the message with the immediate data, which is in its first 4 bytes.
func (q *QP) immediate(b *Batch, w *sendWQE) {
	h := iwarp.Header{Last: true, Opcode: iwarp.OpImmediate, MSN: q.tx.msn[iwarp.QueueSend]}
	if w.Flags&verbs.Solicited != 0 {
		h.Opcode = iwarp.OpImmediateSE
	}
	q.tx.msn[iwarp.QueueSend]++
	var data [iwarp.ImmediateLen]byte
	binary.BigEndian.PutUint32(data[:], w.Imm)
	q.message(b, h, data[:])
}

// requestRead appends the request for the next piece of a READ's memory: the data of one request
// goes to one place.
func (q *QP) requestRead(b *Batch, w *sendWQE) bool {
	t := &q.tx
	if w.asked == 0 {
		w.SGL = slices.DeleteFunc(w.SGL, func(s verbs.SGE) bool { return s.Length == 0 })
	}
	r := iwarp.ReadRequest{SrcSTag: iwarp.STag(w.Remote.Key), SrcTO: w.Remote.Addr}
	op := readOp{wqe: q.popped + uint64(q.next)}
	if w.Length > 0 {
		sge := &w.SGL[w.asked]
		s, ok := q.Device.Memory.Local(q.PD, sge, true)
		if !ok || !q.ReadsInto(sge) {
			q.failWhenOldest(w, verbs.StatusLocalProtectionError)
			return false
		}
		for i := range w.asked {
			r.SrcTO += uint64(w.SGL[i].Length)
		}
		r.SinkSTag, r.SinkTO, r.Size = iwarp.STag(sge.LKey), sge.Addr, sge.Length
		op.span = s
	}
	op.stag, op.to, op.size = r.SinkSTag, r.SinkTO, r.Size
	*q.reads.PushBack() = op
	var data [iwarp.ReadRequestLen]byte
	q.message(b, t.readHeader(), r.Append(data[:0]))
	w.asked++
	if w.asked >= len(w.SGL) {
		q.finish(w)
	}
	return true
}

func (q *QP) requestAtomic(b *Batch, w *sendWQE) bool {
	t := &q.tx
	s, ok := memory.Span{}, true
	for i := range w.SGL { // all but one are empty, as the length is 8
		if w.SGL[i].Length == 8 {
			s, ok = q.Device.Memory.Local(q.PD, &w.SGL[i], true)
		}
	}
	if !ok || s.Len() != 8 {
		q.failWhenOldest(w, verbs.StatusLocalProtectionError)
		return false
	}
	t.atomic++
	r := iwarp.AtomicRequest{ID: t.atomic, STag: iwarp.STag(w.Remote.Key), TO: w.Remote.Addr, Data: w.Swap}
	if w.Op == verbs.OpCompareSwap {
		r.Op, r.Mask, r.Compare, r.CompareMask = iwarp.CompareSwap, ^uint64(0), w.Compare, ^uint64(0)
	}
	*q.reads.PushBack() = readOp{wqe: q.popped + uint64(q.next), atomic: true, id: r.ID, span: s}
	var data [iwarp.AtomicRequestLen]byte
	h := iwarp.Header{Last: true, Opcode: iwarp.OpAtomicRequest, Queue: iwarp.QueueReadRequest,
		MSN: t.msn[iwarp.QueueReadRequest]}
	t.msn[iwarp.QueueReadRequest]++
	q.message(b, h, r.Append(data[:0]))
	w.asked++
	q.finish(w)
	return true
}
