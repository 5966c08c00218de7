// SPDX-License-Identifier: Apache-2.0

package ibta

import (
	"github.com/ramjet-rdma/ramjet/internal/base/memory"
	"github.com/ramjet-rdma/ramjet/internal/base/queue"
	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/wire/ib"
)

// execute executes the request packet that is next in sequence, and returns how many PSNs it takes.
func (q *QP) execute(p *ib.Packet, info *ib.OpInfo) (outcome, int) {
	m := &q.resp.msg
	if info.First == (m.class != 0) || !info.First && m.class != info.Class {
		return malformed, 0 // IBTA 9.7.4.1.2: opcode sequence
	}
	if !info.Payload.Fits(len(p.Payload), q.mtu()) {
		return malformed, 0
	}
	switch info.Class {
	case ib.ClassSend:
		return q.executeSend(p, info), 1
	case ib.ClassWrite:
		return q.executeWrite(p, info), 1
	}
	if !q.reliable() {
		return malformed, 0
	}
	switch info.Class {
	case ib.ClassReadRequest:
		return q.executeRead(p)
	case ib.ClassAtomic:
		return q.executeAtomic(p), 1
	case ib.ClassAtomicWrite:
		return q.executeAtomicWrite(p), 1
	case ib.ClassFlush:
		return q.executeFlush(p), 1
	}
	return malformed, 0
}

// domain returns the protection domain of a request: the queue pair's, or for XRC that of the
// shared receive queue it names.
func (q *QP) domain(p *ib.Packet) (memory.PD, bool) {
	if q.Type != verbs.XRCTgt {
		return q.PD, true
	}
	srq := q.Domain.Queues[p.XRCETH.SRQN]
	if srq == nil {
		return 0, false
	}
	return srq.PD, true
}

// takeRecv makes sure that the current message has a receive. It returns false if none is posted.
func (q *QP) takeRecv(p *ib.Packet) (outcome, bool) {
	if q.HasReceive() {
		return accept, true // UC: left over from a message that was cut short
	}
	rq := q.Recv
	if q.Type == verbs.XRCTgt {
		if rq = q.Domain.Queues[p.XRCETH.SRQN]; rq == nil {
			return malformed, false
		}
	}
	if rq == nil || q.Device.Unready || !q.TakeReceive(rq) {
		return receiverNotReady, false
	}
	return accept, true
}

// completeRecv completes the current receive with a message of n bytes.
func (q *QP) completeRecv(p *ib.Packet, info *ib.OpInfo, op verbs.WCOp, n int) *verbs.WC {
	c := q.CompleteReceive(verbs.StatusSuccess)
	c.Solicited = p.SolicitedEvent
	c.WC.Op, c.WC.ByteLen, c.WC.PKeyIndex = op, uint32(n), q.Attr().PKeyIndex
	if info.Imm {
		c.WC.Flags |= verbs.WithImm
		c.WC.Imm = uint32(p.Imm)
	}
	if info.Inv {
		c.WC.Flags |= verbs.WithInv
		c.WC.InvKey = p.IETH.RKey
	}
	return &c.WC
}

// executeSend puts a packet of a SEND into the receive's memory.
func (q *QP) executeSend(p *ib.Packet, info *ib.OpInfo) outcome {
	m := &q.resp.msg
	if info.First {
		if v, ok := q.takeRecv(p); !ok {
			return v
		}
		if !q.Scatter(&m.scatter) {
			q.CompleteReceive(verbs.StatusLocalProtectionError)
			return q.recvFailed(remoteOperational)
		}
		m.class, m.off = ib.ClassSend, 0
	}
	if len(p.Payload) > min(m.scatter.Len(), int(q.Device.MaxMsgSize))-m.scatter.Pos() {
		if q.Type == verbs.UC && !q.Recv.Shared {
			return tooLong
		}
		q.CompleteReceive(verbs.StatusLocalLengthError)
		return q.recvFailed(malformed)
	}
	if !m.scatter.Write(q.Device.Memory, p.Payload) {
		q.CompleteReceive(verbs.StatusLocalProtectionError)
		return q.recvFailed(remoteOperational)
	}
	m.off += len(p.Payload)
	if !info.Last {
		return accept
	}
	if info.Inv && !q.Device.Memory.Invalidate(q.PD, q.Num, p.IETH.RKey) {
		// The data has arrived and the key is this side's: the peer gets no NAK for it (IBTA
		// 9.9.6.3, class J; Linux rxe does the same).
		q.CompleteReceive(verbs.StatusRemoteInvalidRequestError)
		q.enterError()
		return silent
	}
	q.completeRecv(p, info, verbs.WCRecv, m.off)
	return accept
}

// recvFailed ends receiving on an unreliable queue pair whose receive completed with an error (IBTA
// 9.9.3, class D). A reliable one answers with v.
func (q *QP) recvFailed(v outcome) outcome {
	if !q.reliable() {
		q.enterError()
		return silent
	}
	return v
}

// executeWrite puts a packet of a WRITE into the memory named by the peer.
func (q *QP) executeWrite(p *ib.Packet, info *ib.OpInfo) outcome {
	m := &q.resp.msg
	if info.First {
		if v := q.beginWrite(p); v != accept {
			return v
		}
	}
	end := m.off + len(p.Payload)
	if end > m.length || info.Last != (end == m.length) {
		m.class = 0
		return malformed
	}
	if info.Imm {
		if v, ok := q.takeRecv(p); !ok {
			if info.First {
				m.class = 0
			}
			return v
		}
	}
	if m.length > 0 {
		q.accessing(p, info)
	}
	if len(p.Payload) > 0 && !m.target.Write(q.Device.Memory, m.off, p.Payload) {
		return remoteAccess
	}
	if a := q.Device.Memory.Accesses(); a != nil && info.Last && m.length > 0 {
		a.End(q.Num, verbs.OpWrite, nil, true)
	}
	m.off = end
	if info.Imm {
		q.completeRecv(p, info, verbs.WCRecvWriteImm, m.length)
	}
	return accept
}

// accessing tells the observer of peers' operations of a packet of a WRITE that is about to be carried out.
func (q *QP) accessing(p *ib.Packet, info *ib.OpInfo) {
	a := q.Device.Memory.Accesses()
	switch {
	case a == nil:
	case info.First:
		at, _ := requestMemory(p)
		a.Begin(q.Num, verbs.OpWrite, at, q.resp.msg.target.Bytes())
	case info.Last:
		a.Last(q.Num)
	}
}

// beginWrite checks the first packet of a WRITE.
func (q *QP) beginWrite(p *ib.Packet) outcome {
	m := &q.resp.msg
	n := p.RETH.DMALen
	switch {
	case q.Attr().Access&verbs.RemoteWrite == 0:
		return notAllowed
	case n > q.Device.MaxMsgSize:
		return longerThanDevice
	}
	m.target = memory.Span{}
	if n > 0 {
		s, v := q.remote(p)
		if v != accept {
			return v
		}
		m.target = s
	}
	m.class, m.off, m.length = ib.ClassWrite, 0, int(n)
	return accept
}

// remote finds the memory named by a request, which the peer must be allowed to access.
func (q *QP) remote(p *ib.Packet) (memory.Span, outcome) {
	pd, ok := q.domain(p)
	if !ok {
		return memory.Span{}, malformed
	}
	at, n := requestMemory(p)
	s, ok := q.Device.Memory.Remote(pd, q.Num, at.Key, at.Addr, uint64(n), requestAccess(p))
	if !ok {
		return s, remoteAccess
	}
	return s, accept
}

// executeRead accepts a READ request; its responses follow.
func (q *QP) executeRead(p *ib.Packet) (outcome, int) {
	n := p.RETH.DMALen
	switch {
	case q.Attr().Access&verbs.RemoteRead == 0:
		return notAllowed, 0
	case n > q.Device.MaxMsgSize:
		return longerThanDevice, 0
	case !q.resp.replies.room(q.Attr().MaxDestRdAtomic):
		return tooMany, 0
	}
	s, v := q.readable(p)
	if v != accept {
		return v, 0
	}
	packets := responses(n, q.mtu())
	if a := q.Device.Memory.Accesses(); a != nil && n > 0 {
		at, _ := requestMemory(p)
		a.Begin(q.Num, verbs.OpRead, at, s.Bytes())
	}
	q.replyAndSave(reply{kind: replyRead, psn: p.PSN, packets: packets, msn: q.resp.msn + 1, asked: p.RETH, source: s})
	return accept, packets
}

// readable finds the memory named by a READ request.
func (q *QP) readable(p *ib.Packet) (memory.Span, outcome) {
	if p.RETH.DMALen == 0 {
		return memory.Span{}, accept
	}
	return q.remote(p)
}

// executeAtomic executes a compare-and-swap or fetch-and-add (IBTA 9.4.5).
func (q *QP) executeAtomic(p *ib.Packet) outcome {
	switch {
	case q.Attr().Access&verbs.RemoteAtomic == 0:
		return notAllowed
	case !q.resp.replies.room(q.Attr().MaxDestRdAtomic):
		return tooMany
	}
	s, v := q.remote(p)
	if v != accept {
		return v
	}
	if p.AtomicETH.VA%8 != 0 || !s.Aligned8() {
		return misaligned
	}
	op := verbs.OpFetchAdd
	if requestOp(p) == verbs.WCCompareSwap {
		op = verbs.OpCompareSwap
	}
	a := q.Device.Memory.Accesses()
	if a != nil {
		at, _ := requestMemory(p)
		a.Begin(q.Num, op, at, s.Bytes())
	}
	orig, changed, ok := queue.Atomic(s, op, p.AtomicETH.Compare, p.AtomicETH.Swap)
	if !ok {
		return remoteAccess
	}
	if a != nil {
		a.End(q.Num, op, s.Bytes(), changed)
	}
	q.Device.Memory.Written(s)
	q.replyAndSave(reply{kind: replyAtomic, psn: p.PSN, packets: 1, msn: q.resp.msn + 1, orig: orig})
	return accept
}

// executeAtomicWrite writes eight bytes atomically (IBTA annex A19).
func (q *QP) executeAtomicWrite(p *ib.Packet) outcome {
	switch {
	case q.Attr().Access&verbs.RemoteWrite == 0:
		return notAllowed
	case p.RETH.DMALen != 8:
		return malformed
	case !q.resp.replies.room(q.Attr().MaxDestRdAtomic):
		return tooMany
	}
	s, v := q.remote(p)
	if v != accept {
		return v
	}
	if p.RETH.VA%8 != 0 || !s.Aligned8() {
		return misaligned
	}
	a := q.Device.Memory.Accesses()
	if a != nil {
		at, _ := requestMemory(p)
		a.Begin(q.Num, verbs.OpAtomicWrite, at, s.Bytes())
	}
	if !s.Store(p.Payload) {
		return remoteAccess
	}
	if a != nil {
		a.End(q.Num, verbs.OpAtomicWrite, s.Bytes(), true)
	}
	q.Device.Memory.Written(s)
	q.replyAndSave(reply{kind: replyEmpty, psn: p.PSN, packets: 1, msn: q.resp.msn + 1})
	return accept
}
