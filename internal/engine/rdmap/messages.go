// SPDX-License-Identifier: Apache-2.0

package rdmap

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/ramjet-rdma/ramjet/internal/base/memory"
	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/wire/iwarp"
)

// endSegment handles the end of a segment that was placed.
func (q *QP) endSegment() {
	r := &q.rx
	h := &r.h
	q.Counts.RecvPackets++
	q.lane.Counters.RecvFPDUs++
	q.countSegment(h)
	q.tx.await, r.began = false, true
	// a message that only says that the peer is ready does not count
	if q.State() == verbs.StateRTR && !r.heard && (h.Opcode != iwarp.OpWrite || r.n > 0) {
		r.heard = true
		q.Raise(verbs.EventCommEstablished)
	}
	first := !r.inMessage
	r.inMessage, r.op = !h.Last, h.Opcode
	switch op := h.Opcode; {
	case op == iwarp.OpWrite:
		if first {
			r.written = 0
		}
		r.written += uint32(r.n)
		r.wrote = h.Last
		if a := q.Device.Memory.Accesses(); a != nil && h.Last && r.written > 0 {
			a.End(q.Num, verbs.OpWrite, nil, true)
		}
		return
	case op == iwarp.OpReadResponse:
		q.endReadResponse(h.Last)
		return
	case op.IsSend():
		r.mo += uint32(r.n)
		if h.Last {
			q.endSend(h)
		}
	case op == iwarp.OpImmediate, op == iwarp.OpImmediateSE:
		q.endImmediate(h)
	}
	r.wrote = false
}

// countSegment counts a segment's message or bytes. A READ's data are counted when it completes, immediate data
// belong to the WRITE before them, and an empty WRITE is no request: by it peers say that they are ready
// (RFC 6581 section 9), and prompt each other.
func (q *QP) countSegment(h *iwarp.Header) {
	switch op := h.Opcode; {
	case op == iwarp.OpWrite && q.rx.n == 0 && !q.rx.inMessage:
	case op == iwarp.OpWrite, op.IsSend():
		q.CountRequest(q.rx.n, h.Last)
	case op == iwarp.OpReadRequest, op == iwarp.OpAtomicRequest:
		q.CountRequest(0, true)
	}
}

// endSend completes the receive of a SEND.
func (q *QP) endSend(h *iwarp.Header) {
	r := &q.rx
	r.sendMSN++
	if h.Opcode.Invalidates() && !q.Device.Memory.Invalidate(q.PD, q.Num, verbs.Key(h.STag)) {
		q.CompleteReceive(verbs.StatusRemoteInvalidRequestError) // as on InfiniBand; Linux siw does the same
		q.terminateAccess(iwarp.ProtectionInvalidate, nil, nil, 0)
		return
	}
	wc := q.completeReceive()
	wc.ByteLen = r.mo
	if h.Opcode.Invalidates() {
		wc.Flags, wc.InvKey = verbs.WithInv, verbs.Key(h.STag)
	}
}

// endImmediate completes the receive of immediate data, which belongs to the preceding WRITE.
func (q *QP) endImmediate(*iwarp.Header) {
	r := &q.rx
	r.sendMSN++
	wc := q.completeReceive()
	wc.Flags, wc.Imm = verbs.WithImm, r.imm
	if r.wrote {
		wc.Op, wc.ByteLen = verbs.WCRecvWriteImm, r.written
	}
}

// completeReceive completes the current receive and returns the completion to be filled in further.
func (q *QP) completeReceive() *verbs.WC {
	c := q.CompleteReceive(verbs.StatusSuccess)
	c.Solicited = q.rx.h.Opcode.Solicited()
	return &c.WC
}

// endReadResponse counts received data of the oldest READ.
func (q *QP) endReadResponse(last bool) {
	op := q.reads.Front()
	op.got += uint32(q.rx.n)
	if last {
		q.answered()
	}
}

// answered ends the oldest READ or atomic request.
func (q *QP) answered() {
	op := q.reads.Front()
	if !op.rtr {
		q.sq.At(int(op.wqe-q.popped)).answered++
	}
	op.span = memory.Span{}
	q.reads.PopFront()
	q.retire()
}

// failRead fails the work request of the oldest READ, and with it the queue pair.
func (q *QP) failRead(s verbs.Status) {
	q.flushBefore(q.reads.Front())
	q.fail(s)
}

// flushBefore flushes the work requests before that of a READ.
func (q *QP) flushBefore(op *readOp) {
	for q.popped < op.wqe {
		q.CompleteSend(&q.sq.Front().SendWQE, verbs.StatusWRFlushError)
		q.popFront()
	}
}

// handleRequest handles a READ or atomic request, whose message is the whole segment.
func (q *QP) handleRequest(h *iwarp.Header, head, body []byte) bool {
	if limit := min(int(q.IRD), int(q.Attr().MaxDestRdAtomic)); q.tx.resp.Len() >= limit {
		q.RefuseRequest(verbs.Failure{Status: statusOf(iwarp.UntaggedNoBuffer), Reason: verbs.ReasonTooMany,
			Op:     requestOp(h, body),
			Detail: fmt.Sprintf("max_dest_rd_atomic %d", limit)}, q.PD, 0)
		return q.terminate(iwarp.UntaggedNoBuffer, head, body, len(body))
	}
	ok := false
	if h.Opcode == iwarp.OpReadRequest {
		ok = q.readRequest(head, body)
	} else {
		ok = q.atomicRequest(head, body)
	}
	if ok {
		q.rx.readMSN++
	}
	return ok
}

func (q *QP) readRequest(head, body []byte) bool {
	var r iwarp.ReadRequest
	r.Decode(body)
	resp := response{stag: r.SinkSTag, to: r.SinkTO}
	if r.Size > 0 {
		if r.SrcTO > math.MaxUint64-uint64(r.Size) || r.SinkTO > math.MaxUint64-uint64(r.Size) {
			return q.terminateAccess(iwarp.ProtectionWrap, head, body, len(body))
		}
		s, cause := q.source(verbs.WCRead, verbs.Key(r.SrcSTag), r.SrcTO, uint64(r.Size), verbs.RemoteRead)
		if cause != 0 {
			return q.terminateAccess(cause, head, body, len(body))
		}
		resp.span = s
		if a := q.Device.Memory.Accesses(); a != nil {
			a.Begin(q.Num, verbs.OpRead, verbs.Remote{Addr: r.SrcTO, Key: verbs.Key(r.SrcSTag)}, s.Bytes())
		}
	}
	*q.tx.resp.PushBack() = resp
	return true
}

func (q *QP) atomicRequest(head, body []byte) bool {
	var r iwarp.AtomicRequest
	r.Decode(body)
	op := atomicOp(r.Op)
	s, cause := q.source(op, verbs.Key(r.STag), r.TO, 8, verbs.RemoteAtomic)
	if cause != 0 {
		return q.terminateAccess(cause, head, body, len(body))
	}
	if !s.Aligned8() {
		q.RefuseRequest(verbs.Failure{Status: statusOf(iwarp.OperationCatastrophic), Reason: verbs.ReasonMisaligned,
			Op: op, Key: verbs.Key(r.STag), Addr: r.TO, Length: 8},
			q.PD, verbs.RemoteAtomic)
		return q.terminate(iwarp.OperationCatastrophic, head, body, len(body))
	}
	resp := response{atomic: true, id: r.ID}
	a, kind := q.Device.Memory.Accesses(), verbs.OpFetchAdd
	if r.Op == iwarp.CompareSwap {
		kind = verbs.OpCompareSwap
	}
	if a != nil {
		a.Begin(q.Num, kind, verbs.Remote{Addr: r.TO, Key: verbs.Key(r.STag)}, s.Bytes())
	}
	there := false
	switch r.Op {
	case iwarp.FetchAdd:
		resp.original, there = s.Update(func(old uint64) (uint64, bool) { return maskedAdd(old, r.Data, r.Mask), true })
	case iwarp.CompareSwap:
		resp.original, there = s.Update(func(old uint64) (uint64, bool) {
			return old&^r.Mask | r.Data&r.Mask, old&r.CompareMask == r.Compare&r.CompareMask
		})
	default:
		return q.terminate(iwarp.OperationOpcode, head, body, len(body))
	}
	if !there {
		return q.terminateAccess(iwarp.ProtectionBounds, head, body, len(body))
	}
	if a != nil {
		a.End(q.Num, kind, s.Bytes(), kind == verbs.OpFetchAdd ||
			resp.original&r.CompareMask == r.Compare&r.CompareMask)
	}
	q.Device.Memory.Written(s)
	*q.tx.resp.PushBack() = resp
	return true
}

// requestOp returns the operation that a READ or atomic request is for.
func requestOp(h *iwarp.Header, body []byte) verbs.WCOp {
	if h.Opcode != iwarp.OpAtomicRequest {
		return verbs.WCRead
	}
	var r iwarp.AtomicRequest
	r.Decode(body)
	return atomicOp(r.Op)
}

func atomicOp(op iwarp.AtomicOp) verbs.WCOp {
	if op == iwarp.CompareSwap {
		return verbs.WCCompareSwap
	}
	return verbs.WCFetchAdd
}

// maskedAdd adds in fields: a bit of the mask ends a field, so the carry of that bit is dropped
// (RFC 7306 section 5.1.1).
func maskedAdd(a, b, mask uint64) uint64 {
	return (a&^mask + b&^mask) ^ (a^b)&mask
}

// source finds memory that a peer reads or operates on.
func (q *QP) source(op verbs.WCOp, key verbs.Key, addr, n uint64, need verbs.Access) (memory.Span, iwarp.Cause) {
	f := verbs.Failure{Status: verbs.StatusRemoteAccessError, Op: op, Key: key, Addr: addr, Length: n}
	if q.Attr().Access&need == 0 {
		f.Reason = verbs.ReasonQPAccess
		q.RefuseRequest(f, q.PD, need)
		return memory.Span{}, iwarp.ProtectionAccess
	}
	s, ok := q.Device.Memory.Remote(q.PD, q.Num, key, addr, n, need)
	if ok {
		return s, 0
	}
	q.RefuseRequest(f, q.PD, need)
	return s, [...]iwarp.Cause{memory.NoKey: iwarp.ProtectionSTag, memory.NotOwner: iwarp.ProtectionStream,
		memory.Outside: iwarp.ProtectionBounds,
		memory.NoRight: iwarp.ProtectionAccess}[q.Device.Memory.Refused(q.PD, q.Num, key, addr, n, need)]
}

// taggedCause returns the cause for refusing a WRITE.
func (q *QP) taggedCause(key verbs.Key, addr uint64, n int) iwarp.Cause {
	q.RefuseRequest(verbs.Failure{Status: verbs.StatusRemoteAccessError, Op: verbs.WCWrite, Key: key, Addr: addr,
		Length: uint64(n)}, q.PD, verbs.RemoteWrite)
	return [...]iwarp.Cause{memory.NoKey: iwarp.TaggedSTag, memory.NotOwner: iwarp.TaggedStream,
		memory.Outside: iwarp.TaggedBounds, memory.NoRight: iwarp.ProtectionAccess}[q.Device.Memory.Refused(q.PD, q.Num,
		key, addr, uint64(n),
		verbs.RemoteWrite)]
}

// atomicResponse handles the response to the oldest atomic request.
func (q *QP) atomicResponse(head, body []byte) bool {
	var r iwarp.AtomicResponse
	r.Decode(body)
	if q.reads.Len() == 0 || !q.reads.Front().atomic || q.reads.Front().id != r.ID {
		return q.badResponse(iwarp.OperationOpcode, head, len(body))
	}
	var b [8]byte
	binary.NativeEndian.PutUint64(b[:], r.Original)
	if !q.reads.Front().span.Write(q.Device.Memory, 0, b[:]) {
		q.terminateLocal()
		q.failRead(verbs.StatusLocalProtectionError)
		return false
	}
	q.rx.atomicMSN++
	q.answered()
	return true
}
