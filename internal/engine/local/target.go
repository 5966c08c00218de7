// SPDX-License-Identifier: Apache-2.0

package local

import (
	"encoding/binary"

	"github.com/ramjet-rdma/ramjet/internal/base/memory"
	"github.com/ramjet-rdma/ramjet/internal/base/queue"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// response is an answer that is due to the peer.
type response struct {
	atomic bool
	result uint64
	span   memory.Span // READ: the memory
	off    int         // bytes of it that are in the ring
}

// resps are the answers that are due, oldest first.
type resps struct {
	queue.Ring[response]
	one memory.Cursor
}

// full reports whether requests wait because as many are to be answered as may be.
func (r *resps) full(q *QP) bool { return r.Len() > 0 && r.Len() >= int(q.Attr().MaxDestRdAtomic) }

// handle handles a request of the peer. It returns false if the request stays in the ring, because
// there is no receive for it or the connection has ended.
func (q *QP) handle(k kind, body []byte) bool {
	switch { // an operation that has begun goes on, even if the peer has changed the message
	case q.unreliable():
		return q.handleUnreliable(k, body)
	case q.ref.phase != noRef:
		return q.continueRef()
	case q.flush != nil:
		return q.endFlush()
	}
	op := k.op()
	if op < opSend || op > opWriteRef || len(body) < fieldsOf[op] || q.inMessage && (op != opSend || k.has(first)) {
		q.corrupt()
		return false
	}
	q.hear()
	switch op {
	case opSend:
		return q.takeSend(k, get32(body, 0), body[sendFields:])
	case opRef:
		return q.takeRef(k, body)
	case opWriteRef:
		return q.takeWriteRef(body)
	case opFetch:
		return q.takeFetch(verbs.Key(get32(body, 0)), get64(body, 8), get32(body, 4))
	case opWrite:
		return q.takeWrite(k, verbs.Key(get32(body, 0)), get64(body, 8), uint64(get32(body, 4)), body[writeFields:])
	case opImm:
		return q.takeImm(k, get32(body, 0), get32(body, 4))
	case opRead:
		return q.takeRead(verbs.Key(get32(body, 0)), get64(body, 8), get32(body, 4))
	case opStore:
		return q.takeStore(verbs.Key(get32(body, 0)), get64(body, 8), body[16:storeFields])
	case opFlush:
		return q.takeFlush(verbs.Key(get32(body, 0)), verbs.FlushLevel(body[4]), verbs.FlushScope(body[5]),
			get64(body, 8), get64(body, 16))
	}
	return q.takeAtomic(verbs.Key(get32(body, 0)), verbs.SendOp(get32(body, 4)), get64(body, 8), get64(body, 16),
		get64(body, 24))
}

// hear tells that a message has come before RTS.
func (q *QP) hear() {
	if q.State() == verbs.StateRTR && !q.heard {
		q.heard = true
		q.Raise(verbs.EventCommEstablished)
	}
}

// refuse ends the connection: the peer's request fails with a status.
func (q *QP) refuse(s verbs.Status, e verbs.EventType) bool {
	q.refusal = s
	q.reap()
	q.enterError()
	q.Raise(e)
	return false
}

// violated refuses an access that the peer is not allowed (IBTA 9.7.5.1.3).
func (q *QP) violated() bool {
	return q.refuse(verbs.StatusRemoteAccessError, verbs.EventQPAccessError)
}

// notAllowed is violated for memory that a request names, and notes why.
func (q *QP) notAllowed(op verbs.WCOp, key verbs.Key, addr, n uint64, need verbs.Access) bool {
	q.RefuseRequest(verbs.Failure{Status: verbs.StatusRemoteAccessError, Op: op, Key: key, Addr: addr, Length: n}, q.PD,
		need)
	return q.violated()
}

// forbidden refuses an operation that the queue pair does not allow.
func (q *QP) forbidden(op verbs.WCOp, key verbs.Key, addr, n uint64, need verbs.Access) bool {
	q.RefuseRequest(verbs.Failure{Status: verbs.StatusRemoteInvalidRequestError, Reason: verbs.ReasonQPAccess, Op: op,
		Key: key, Addr: addr, Length: n}, q.PD, need)
	return q.refuse(verbs.StatusRemoteInvalidRequestError, verbs.EventQPRequestError)
}

// misaligned refuses an operation on a word that is across two.
func (q *QP) misaligned(op verbs.WCOp, key verbs.Key, addr uint64, need verbs.Access) bool {
	q.RefuseRequest(verbs.Failure{Status: verbs.StatusRemoteInvalidRequestError, Reason: verbs.ReasonMisaligned, Op: op,
		Key: key, Addr: addr, Length: 8}, q.PD, need)
	return q.refuse(verbs.StatusRemoteInvalidRequestError, verbs.EventQPRequestError)
}

// receive takes the oldest receive for a message. If there is none the message waits, and later requests of
// the peer wait behind it.
func (q *QP) receive(k kind) bool {
	if !q.HasReceive() {
		q.spurned = q.Recv.Len() > 0 && !q.unreliable() && q.Device.Refuses != nil && q.Device.Refuses(q)
		if q.spurned || !q.TakeReceive(q.Recv) {
			if !q.counted {
				q.counted = true
				q.pauses++
				q.CountNotReady(1)
			}
			q.paused, q.patience = true, k.retries()
			return false
		}
		q.counted = false
	}
	return true
}

func (q *QP) takeSend(k kind, field uint32, b []byte) bool {
	if k.has(first) == q.inMessage {
		q.corrupt()
		return false
	}
	if k.has(first) {
		if !q.receive(k) {
			return false
		}
		q.got, q.inMessage = 0, true
		if k.has(last) && q.takeWhole(b) {
			q.got = len(b)
			q.lane.Counters.RecvBytes += uint64(len(b))
			q.CountRequest(len(b), true)
			return q.endSend(k, field)
		}
		if !q.Scatter(&q.land) {
			q.CompleteReceive(verbs.StatusLocalProtectionError)
			return q.refuse(verbs.StatusRemoteOperationError, verbs.EventQPFatal)
		}
	}
	if len(b) > q.land.Len()-q.got {
		q.CompleteReceive(verbs.StatusLocalLengthError)
		return q.refuse(verbs.StatusRemoteInvalidRequestError, verbs.EventQPRequestError)
	}
	if !q.land.Write(q.Device.Memory, b) {
		q.CompleteReceive(verbs.StatusLocalProtectionError)
		return q.refuse(verbs.StatusRemoteOperationError, verbs.EventQPFatal)
	}
	q.got += len(b)
	q.lane.Counters.RecvBytes += uint64(len(b))
	q.CountRequest(len(b), k.has(last))
	if !k.has(last) {
		return true
	}
	return q.endSend(k, field)
}

// endSend completes the receive of a SEND.
func (q *QP) endSend(k kind, field uint32) bool {
	q.inMessage = false
	if k.has(invalidate) && !q.Device.Memory.Invalidate(q.PD, q.Num, verbs.Key(field)) {
		q.CompleteReceive(verbs.StatusRemoteInvalidRequestError) // as on InfiniBand
		return q.violated()
	}
	c := q.CompleteReceive(verbs.StatusSuccess)
	c.Solicited, c.WC.ByteLen = k.has(solicited), uint32(q.got)
	switch {
	case k.has(immediate):
		c.WC.Flags, c.WC.Imm = verbs.WithImm, field
	case k.has(invalidate):
		c.WC.Flags, c.WC.InvKey = verbs.WithInv, verbs.Key(field)
	}
	return true
}

// takeWrite writes a piece of a WRITE, of which rest bytes are left. Nothing of it is written unless all
// of it is allowed.
func (q *QP) takeWrite(k kind, key verbs.Key, addr, rest uint64, b []byte) bool {
	if q.Attr().Access&verbs.RemoteWrite == 0 {
		return q.forbidden(verbs.WCWrite, key, addr, rest, verbs.RemoteWrite)
	}
	s, ok := q.Device.Memory.RemoteCached(&q.last, q.PD, q.Num, key, addr, rest, verbs.RemoteWrite)
	if !ok {
		return q.notAllowed(verbs.WCWrite, key, addr, rest, verbs.RemoteWrite)
	}
	if rest < uint64(len(b)) {
		return q.violated()
	}
	a := q.Device.Memory.Accesses()
	switch {
	case a == nil:
	case k.has(first):
		a.Begin(q.Num, verbs.OpWrite, verbs.Remote{Addr: addr, Key: key}, s.Bytes())
	case k.has(last):
		a.Last(q.Num)
	}
	if !q.place(s.Sub(0, len(b)), k, b) {
		return q.notAllowed(verbs.WCWrite, key, addr, rest, verbs.RemoteWrite)
	}
	if a != nil && k.has(last) {
		a.End(q.Num, verbs.OpWrite, nil, true)
	}
	return true
}

// place writes a piece of a WRITE. It returns false if the memory is not there any more.
func (q *QP) place(s memory.Span, k kind, b []byte) bool {
	ok := false
	if len(b) == 8 && s.Aligned8() {
		ok = s.Store(b) // appears as a whole
		q.Device.Memory.Written(s)
	} else {
		ok = s.Write(q.Device.Memory, 0, b)
	}
	if ok {
		q.lane.Counters.RecvBytes += uint64(len(b))
		q.CountRequest(len(b), k.has(last))
	}
	return ok
}

// takeImm completes a receive with the immediate data of a WRITE.
func (q *QP) takeImm(k kind, imm, length uint32) bool {
	if !q.receive(k) {
		return false
	}
	q.endImm(k, imm, length)
	return true
}

func (q *QP) endImm(k kind, imm, length uint32) {
	if k.has(first) { // the peer has carried out the WRITE by itself
		q.CountRequest(int(length), true)
	}
	c := q.CompleteReceive(verbs.StatusSuccess)
	c.Solicited = k.has(solicited)
	c.WC.Op, c.WC.ByteLen, c.WC.Flags, c.WC.Imm = verbs.WCRecvWriteImm, length, verbs.WithImm, imm
}

func (q *QP) takeRead(key verbs.Key, addr uint64, length uint32) bool {
	if q.Attr().Access&verbs.RemoteRead == 0 {
		return q.forbidden(verbs.WCRead, key, addr, uint64(length), verbs.RemoteRead)
	}
	s, ok := q.Device.Memory.Remote(q.PD, q.Num, key, addr, uint64(length), verbs.RemoteRead)
	if !ok {
		return q.notAllowed(verbs.WCRead, key, addr, uint64(length), verbs.RemoteRead)
	}
	if length > q.Device.MaxMsgSize {
		return q.violated()
	}
	q.CountRequest(0, true)
	if a := q.Device.Memory.Accesses(); a != nil && length > 0 {
		a.Begin(q.Num, verbs.OpRead, verbs.Remote{Addr: addr, Key: key}, s.Bytes())
	}
	*q.resp.PushBack() = response{span: s}
	return true
}

func (q *QP) takeAtomic(key verbs.Key, op verbs.SendOp, addr, compare, swap uint64) bool {
	if operations[op].class != classAtomic {
		q.corrupt()
		return false
	}
	done := queue.CompletesAs(op)
	if q.Attr().Access&verbs.RemoteAtomic == 0 {
		return q.forbidden(done, key, addr, 8, verbs.RemoteAtomic)
	}
	s, ok := q.Device.Memory.Remote(q.PD, q.Num, key, addr, 8, verbs.RemoteAtomic)
	if !ok {
		return q.notAllowed(done, key, addr, 8, verbs.RemoteAtomic)
	}
	if !s.Aligned8() {
		return q.misaligned(done, key, addr, verbs.RemoteAtomic)
	}
	a := q.Device.Memory.Accesses()
	if a != nil {
		a.Begin(q.Num, op, verbs.Remote{Addr: addr, Key: key}, s.Bytes())
	}
	old, changed, ok := queue.Atomic(s, op, compare, swap)
	if !ok {
		return q.violated()
	}
	if a != nil {
		a.End(q.Num, op, s.Bytes(), changed)
	}
	q.Device.Memory.Written(s)
	q.CountRequest(0, true)
	*q.resp.PushBack() = response{atomic: true, result: old}
	return true
}

// takeStore carries out an ATOMIC WRITE (IBTA annex A19).
func (q *QP) takeStore(key verbs.Key, addr uint64, word []byte) bool {
	const op, need = verbs.WCAtomicWrite, verbs.RemoteWrite
	if q.Attr().Access&need == 0 {
		return q.forbidden(op, key, addr, 8, need)
	}
	s, ok := q.Device.Memory.RemoteCached(&q.last, q.PD, q.Num, key, addr, 8, need)
	if !ok {
		return q.notAllowed(op, key, addr, 8, need)
	}
	if !s.Aligned8() {
		return q.misaligned(op, key, addr, need)
	}
	a := q.Device.Memory.Accesses()
	if a != nil {
		a.Begin(q.Num, verbs.OpAtomicWrite, verbs.Remote{Addr: addr, Key: key}, s.Bytes())
	}
	if !s.Store(word) {
		return q.notAllowed(op, key, addr, 8, need)
	}
	if a != nil {
		a.End(q.Num, verbs.OpAtomicWrite, s.Bytes(), true)
	}
	q.Device.Memory.Written(s)
	q.lane.Counters.RecvBytes += 8
	q.CountRequest(8, true)
	return true
}

// answer continues the oldest response. It returns false if there is none, or no room for it.
func (q *QP) answer() (moved int, ok bool) {
	if q.resp.Len() == 0 {
		return 0, q.refusal != 0 && q.sayRefused()
	}
	r := q.resp.Front()
	n, k := resultFields, opResult|last
	if !r.atomic {
		n, k = min(r.span.Len()-r.off, piece), opData
		if r.off+n == r.span.Len() {
			k |= last
		}
	}
	b, err := q.peer.responses.Reserve(n, uint32(k))
	if err != nil {
		q.corrupt()
	}
	if b == nil {
		return 0, false
	}
	if r.atomic {
		binary.NativeEndian.PutUint64(b, r.result)
	} else {
		q.resp.one.One(r.span)
		q.resp.one.Seek(r.off)
		if !q.resp.one.Read(b) {
			q.resp.Clear()
			q.refuse(verbs.StatusRemoteOperationError, verbs.EventQPAccessError)
			return 0, true
		}
		q.Counts.SentBytes += uint64(n)
	}
	q.respond()
	q.lane.Counters.SentBytes += uint64(n)
	if r.off += n; k.has(last) {
		if a := q.Device.Memory.Accesses(); a != nil && !r.atomic && r.off > 0 {
			a.End(q.Num, verbs.OpRead, r.span.Bytes(), true)
		}
		*r = response{}
		q.resp.PopFront()
	}
	return n, true
}

// sayRefused tells the peer that its request fails.
func (q *QP) sayRefused() bool {
	b, err := q.peer.responses.Reserve(statusFields+4, uint32(opRefused))
	if err != nil {
		q.corrupt()
	}
	if b == nil {
		return false
	}
	put32(b, 0, uint32(q.refusal))
	put32(b, statusFields, uint32(q.reason()))
	q.refusal = 0
	q.respond()
	return true
}

// reason returns why this side refused.
func (q *QP) reason() verbs.Reason {
	if f := q.Failure(); f != nil {
		return f.Reason
	}
	return verbs.ReasonUnknown
}

// respond sends the response that was reserved.
func (q *QP) respond() {
	q.rings = q.peer.responses.Publish() || q.rings
	q.Counts.SentPackets++
	q.lane.Counters.SentMessages++
}
