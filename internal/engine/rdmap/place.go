// SPDX-License-Identifier: Apache-2.0

package rdmap

import (
	"encoding/binary"
	"math"

	"github.com/ramjet-rdma/ramjet/internal/base/memory"
	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/wire/iwarp"
)

// maxMessageLen is the length of the longest message in bytes: offsets within a message, and the lengths
// in completions, have 32 bits (RFC 5041 section 4.3).
const maxMessageLen = math.MaxUint32

// begin checks the header of a segment, head, and finds the destination of its payload, body. It
// returns false if the segment waits for a receive, or the stream was terminated.
func (q *QP) begin(h *iwarp.Header, head, body []byte) bool {
	r, n := &q.rx, len(body)
	r.n = n
	op := h.Opcode
	versions, protocol := h.DDP == iwarp.DDPVersion, h.RDMAP == iwarp.RDMAPVersion
	var cause iwarp.Cause
	switch {
	case !versions && h.Tagged:
		cause = iwarp.TaggedVersion
	case !versions:
		cause = iwarp.UntaggedVersion
	case !protocol:
		cause = iwarp.OperationVersion
	case !op.Valid() || h.Tagged != op.Tagged():
		cause = iwarp.OperationOpcode
	case !h.Tagged && h.Queue != op.Queue():
		cause = iwarp.UntaggedQueue
	case r.inMessage && op != r.op && op != iwarp.OpTerminate:
		cause = iwarp.OperationOpcode // messages are not interleaved
	case op.Fixed() != 0 && (n != op.Fixed() || !h.Last), op == iwarp.OpTerminate && !h.Last:
		cause = iwarp.OperationCatastrophic
	default:
		return q.find(h, head, body)
	}
	return q.terminate(cause, head, nil, n)
}

// find is the part of begin that depends on the message.
func (q *QP) find(h *iwarp.Header, head, body []byte) bool {
	op, n := h.Opcode, len(body)
	switch {
	case op == iwarp.OpWrite:
		return q.findWrite(h, head, n)
	case op == iwarp.OpReadResponse:
		return q.findReadResponse(h, head, n)
	case op.IsSend():
		return q.findReceive(h, head, n)
	}
	q.rx.land.Reset()
	switch {
	case op == iwarp.OpImmediate, op == iwarp.OpImmediateSE:
		q.rx.imm = binary.BigEndian.Uint32(body)
		return q.checkNumber(h, q.rx.sendMSN, head, n) && q.takeReceive(head, n)
	case op == iwarp.OpReadRequest, op == iwarp.OpAtomicRequest:
		return q.checkNumber(h, q.rx.readMSN, head, n) && q.handleRequest(h, head, body)
	case op == iwarp.OpAtomicResponse:
		return q.checkNumber(h, q.rx.atomicMSN, head, n) && q.atomicResponse(head, body)
	}
	return q.terminated(h, head, body)
}

// checkNumber checks that a one-segment message has the next number of its queue.
func (q *QP) checkNumber(h *iwarp.Header, want uint32, head []byte, n int) bool {
	switch {
	case h.MSN != want:
		return q.terminate(iwarp.UntaggedMSN, head, nil, n)
	case h.MO != 0:
		return q.terminate(iwarp.UntaggedMO, head, nil, n)
	}
	return true
}

func (q *QP) findWrite(h *iwarp.Header, head []byte, n int) bool {
	if n == 0 {
		q.rx.land.Reset()
		return true // names no memory (RFC 5040 section 5.1)
	}
	key := verbs.Key(h.STag)
	if h.TO > math.MaxUint64-uint64(n) {
		return q.terminateAccess(iwarp.TaggedWrap, head, nil, n)
	}
	if q.rx.inMessage && uint64(n) > maxMessageLen-uint64(q.rx.written) {
		return q.terminateAccess(iwarp.OperationUnspecified, head, nil, n)
	}
	if q.Attr().Access&verbs.RemoteWrite == 0 {
		q.RefuseRequest(verbs.Failure{Status: verbs.StatusRemoteAccessError, Reason: verbs.ReasonQPAccess,
			Op: verbs.WCWrite, Key: key, Addr: h.TO, Length: uint64(n)},
			q.PD, verbs.RemoteWrite)
		return q.terminateAccess(iwarp.ProtectionAccess, head, nil, n)
	}
	s, ok := q.Device.Memory.RemoteCached(&q.rx.last, q.PD, q.Num, key, h.TO, uint64(n), verbs.RemoteWrite)
	if !ok {
		return q.terminateAccess(q.taggedCause(key, h.TO, n), head, nil, n)
	}
	q.rx.land.One(s)
	if a := q.Device.Memory.Accesses(); a != nil {
		q.accessing(a, h, s)
	}
	return true
}

// accessing tells the observer of peers' operations of a segment of a WRITE that is about to be placed.
func (q *QP) accessing(a memory.Accesses, h *iwarp.Header, s memory.Span) {
	if !q.rx.inMessage {
		a.Begin(q.Num, verbs.OpWrite, verbs.Remote{Addr: h.TO, Key: verbs.Key(h.STag)}, s.Bytes())
		return
	}
	a.Extend(q.Num, s.Bytes())
	if h.Last {
		a.Last(q.Num)
	}
}

// findReadResponse matches a response with the oldest request.
func (q *QP) findReadResponse(h *iwarp.Header, head []byte, n int) bool {
	if q.reads.Len() == 0 || q.reads.Front().atomic || q.reads.Front().stag != h.STag {
		return q.badResponse(iwarp.TaggedSTag, head, n)
	}
	op := q.reads.Front()
	if h.TO != op.to+uint64(op.got) || uint64(n) > uint64(op.size-op.got) || h.Last != (op.got+uint32(n) == op.size) {
		return q.badResponse(iwarp.TaggedBounds, head, n)
	}
	if n == 0 {
		q.rx.land.Reset()
		return true
	}
	if !op.span.Valid() {
		q.placeFailed()
		return false
	}
	q.rx.land.One(op.span.Sub(int(op.got), n))
	return true
}

// findReceive finds the place of a SEND's segment in its receive.
func (q *QP) findReceive(h *iwarp.Header, head []byte, n int) bool {
	r := &q.rx
	switch {
	case h.MSN != r.sendMSN:
		return q.terminate(iwarp.UntaggedMSN, head, nil, n)
	case r.inMessage && h.MO != r.mo, !r.inMessage && h.MO != 0:
		return q.terminate(iwarp.UntaggedMO, head, nil, n)
	}
	if !r.inMessage {
		if !q.takeReceive(head, n) {
			return false
		}
		r.mo = 0
		if !q.Scatter(&r.land) {
			q.CompleteReceive(verbs.StatusLocalProtectionError)
			return q.terminate(iwarp.LocalCatastrophic, head, nil, n)
		}
	}
	if uint64(r.mo)+uint64(n) > min(uint64(r.land.Len()), maxMessageLen) {
		q.CompleteReceive(verbs.StatusLocalLengthError)
		return q.terminate(iwarp.UntaggedTooLong, head, nil, n)
	}
	r.land.Seek(int(r.mo))
	return true
}

// takeReceive takes the oldest receive for a message. If there is none the message waits, and the
// stream with it. RFC 5041 section 7.2 would have the stream terminated, as NICs do, which a momentarily slow
// program does not deserve.
func (q *QP) takeReceive(head []byte, n int) bool {
	if q.HasReceive() {
		return true
	}
	if q.TakeReceive(q.Recv) {
		return true
	}
	if q.Device.NIC {
		q.RefuseRequest(verbs.Failure{Status: statusOf(iwarp.UntaggedNoBuffer), Reason: verbs.ReasonNotReady,
			Op: verbs.WCSend}, q.PD, 0)
		return q.terminate(iwarp.UntaggedNoBuffer, head, nil, n)
	}
	q.rx.paused = true
	return false
}

// place copies payload to its destination.
func (q *QP) place(b []byte) bool {
	if q.rx.land.Len() == 0 {
		return true // begin has handled the fields
	}
	if !q.rx.land.Write(q.Device.Memory, b) {
		q.placeFailed()
		return false
	}
	return true
}

// placeFailed ends a stream whose next bytes have no destination any more, because their region was
// deregistered meanwhile.
func (q *QP) placeFailed() {
	switch op := q.rx.h.Opcode; {
	case op.IsSend():
		q.CompleteReceive(verbs.StatusLocalProtectionError)
		q.terminate(iwarp.LocalCatastrophic, nil, nil, 0)
	case op == iwarp.OpReadResponse:
		q.terminateLocal()
		q.failRead(verbs.StatusLocalProtectionError)
	default:
		q.terminateAccess(iwarp.TaggedSTag, nil, nil, 0)
	}
}
