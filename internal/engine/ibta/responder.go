// SPDX-License-Identifier: Apache-2.0

package ibta

import (
	"github.com/ramjet-rdma/ramjet/internal/base/clock"
	"github.com/ramjet-rdma/ramjet/internal/base/memory"
	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/wire/ib"
)

// responder takes requests (IBTA 9.7.4, 9.8.2).
type responder struct {
	psn     ib.PSN // expected next
	plain   ib.PSN // of the last request that has no response of its own
	msn     uint32 // messages completed, modulo 2^24
	nakSent bool   // a NAK for psn was sent: nothing more until it arrives
	heard   bool   // something arrived in RTR
	msg     message
	flush   *Flush         // the FLUSH at psn in progress, or nil
	reorder *reorderBuffer // requests ahead of psn; nil: there never were any
	ack     ackState
	replies replies
	cnp     cnpState
}

// message is the progress of the current message.
type message struct {
	class ib.Class // of the current message; 0: none
	off   int      // bytes that have arrived

	target memory.Span // WRITE
	length int         // WRITE: announced length in bytes

	scatter memory.Cursor // SEND: the memory of its receive
}

func (r *responder) start(psn ib.PSN) { r.psn, r.plain = psn, psn.Add(-1) }

// outcome is the verdict on a request, with the error classes of IBTA 9.9.3.
type outcome uint8

const (
	accept           outcome = iota
	underWay                 // a FLUSH: Flush.Done continues
	receiverNotReady         // RNR NAK
	silent                   // drop without an answer
	tooLong                  // UC: drop the message, keep its receive for the next one (class D)

	// The requests that follow are refused with a NAK, see refusals.
	malformed         // it does not fit the request before it, or its own lengths
	notAllowed        // the queue pair does not allow the operation
	longerThanDevice  // a message longer than the device takes
	misaligned        // the address of an atomic is not a multiple of 8
	tooMany           // more than max_dest_rd_atomic at once
	remoteAccess      // memory that the peer may not access
	remoteOperational // this side failed
)

// refusals has, for an outcome that refuses a request, the code of its NAK, the event of this side, the status of
// the peer's completion, and the check that failed, where the outcome says it (IBTA 9.7.5.2, 9.9.3).
var refusals = [...]struct {
	code   ib.NAKCode
	event  verbs.EventType
	status verbs.Status
	reason verbs.Reason
}{
	malformed: {ib.NAKInvalidRequest, verbs.EventQPRequestError, verbs.StatusRemoteInvalidRequestError,
		verbs.ReasonMalformed},
	notAllowed: {ib.NAKInvalidRequest, verbs.EventQPRequestError, verbs.StatusRemoteInvalidRequestError,
		verbs.ReasonQPAccess},
	longerThanDevice: {ib.NAKInvalidRequest, verbs.EventQPRequestError, verbs.StatusRemoteInvalidRequestError,
		verbs.ReasonTooLong},
	misaligned: {ib.NAKInvalidRequest, verbs.EventQPRequestError, verbs.StatusRemoteInvalidRequestError,
		verbs.ReasonMisaligned},
	tooMany: {ib.NAKInvalidRequest, verbs.EventQPRequestError, verbs.StatusRemoteInvalidRequestError,
		verbs.ReasonTooMany},
	remoteAccess: {ib.NAKRemoteAccessError, verbs.EventQPAccessError, verbs.StatusRemoteAccessError,
		verbs.ReasonUnknown},
	remoteOperational: {ib.NAKRemoteOperationalError, verbs.EventQPFatal, verbs.StatusRemoteOperationError,
		verbs.ReasonUnknown},
}

// handleRequest handles a request packet, with the checks in the order of IBTA 9.7.4.1.
func (q *QP) handleRequest(now clock.Time, p *ib.Packet) Reason {
	r := &q.resp
	if q.Type == verbs.XRCIni {
		return DropInvalid
	}
	if !r.heard {
		r.heard = true
		if q.State() == verbs.StateRTR {
			q.Raise(verbs.EventCommEstablished)
		}
	}
	if !q.reliable() {
		if p.PSN != r.psn {
			return q.resynchronize(now, p)
		}
		return q.carryOut(p)
	}
	off := p.PSN.Sub(r.psn)
	switch {
	case off > maxAhead:
		return q.farAhead()
	case r.flush != nil && off >= 0:
		return q.duringFlush(p)
	}
	if r.reorder != nil {
		r.reorder.follows(p.PSN, r.psn)
	}
	switch {
	case off < 0:
		return q.duplicate(p)
	case off > 0:
		return q.ahead(now, p)
	}
	q.withdrawNAK()
	reason := q.carryOut(p)
	if r.reorder != nil && reason == Taken {
		q.catchUp(now)
	}
	return reason
}

// carryOut handles the request packet that is next in sequence.
func (q *QP) carryOut(p *ib.Packet) Reason {
	r := &q.resp
	r.nakSent = false
	info := p.Opcode.Info()
	verdict, packets := q.execute(p, info)
	if r.reorder != nil && (verdict == accept || verdict == underWay) {
		r.reorder.forget(&q.lane.reorder, r.psn, packets) // a READ's responses have PSNs too
	}
	if verdict == accept {
		r.psn = r.psn.Add(packets)
		q.CountRequest(len(p.Payload), info.Last)
		if info.Last {
			r.msn = (r.msn + 1) & 0xffffff
			r.msg.class = 0
		}
		if q.reliable() && !requestClasses[info.Class].responds {
			r.plain = p.PSN
			if p.AckReq {
				r.ack.acknowledge(p.PSN)
			}
		}
		return Taken
	}
	if verdict == underWay {
		return Taken
	}
	if q.reliable() && verdict >= malformed {
		q.recordRefusal(p, verdict)
	}
	return q.refuse(verdict)
}

// resynchronize handles a gap in UC: the current message is lost, and a message can only begin with
// its first packet (IBTA 9.8.2.2).
func (q *QP) resynchronize(now clock.Time, p *ib.Packet) Reason {
	r := &q.resp
	r.msg.class = 0
	if !p.Opcode.Info().First {
		r.psn = p.PSN.Next()
		return DropSequence
	}
	r.psn = p.PSN
	return q.handleRequest(now, p)
}

// ahead keeps a request beyond the expected one, and requests the missing ones, which are lost or
// late (IBTA 9.7.5.1.1).
func (q *QP) ahead(now clock.Time, p *ib.Packet) Reason {
	r := &q.resp
	q.Counts.OutOfSequence++
	q.lane.Counters.OutOfSequence++
	if r.reorder == nil {
		r.reorder = q.newReorderBuffer(p.PSN)
	}
	kept := r.reorder.keep(&q.lane.reorder, q.av.Key, p)
	if !r.nakSent && r.reorder.gap.miss(now, r.psn, &q.timers[timerRequestGap]) {
		q.nakExpected()
	}
	if !kept {
		return DropSequence
	}
	q.lane.Counters.Early++
	return Taken
}

// farAhead drops a request too far ahead to be kept. It answers as to any out-of-sequence request
// (IBTA 9.7.5.1.1), but learns nothing from it, because it may be forged.
func (q *QP) farAhead() Reason {
	r := &q.resp
	q.Counts.OutOfSequence++
	q.lane.Counters.OutOfSequence++
	switch {
	case r.flush != nil:
		r.flush.missed = true
	case !r.nakSent && (r.reorder == nil || r.reorder.gap.since == 0):
		q.nakExpected()
	}
	return DropSequence
}

// nakExpected sends a NAK for the expected request.
func (q *QP) nakExpected() {
	r := &q.resp
	r.nakSent = true
	r.ack.nak(r.psn, ib.NAK(ib.NAKPSNSequenceError))
}

// withdrawNAK withdraws the NAK for the expected request, which arrived in the same train as the
// requests that had overtaken it: the NAK has not left.
func (q *QP) withdrawNAK() {
	r := &q.resp
	if r.ack.withdraw(r.psn, r.plain) && r.reorder != nil {
		r.reorder.gap.nakSent = false
	}
}

// catchUp executes the kept requests behind the one that just came. A requester that got a NAK
// and has gone back learns at once how far it can skip ahead.
func (q *QP) catchUp(now clock.Time) {
	r, e := &q.resp, q.resp.reorder
	nakSent, from := e.gap.filled(now, &q.timers[timerRequestGap]), r.psn
	if !q.carryOutKept() {
		return
	}
	switch {
	case r.flush != nil: // Flush.Done continues
	case nakSent && r.psn != from:
		r.ack.acknowledge(r.plain)
	case !nakSent && len(e.kept) > 0 && e.gap.miss(now, r.psn, &q.timers[timerRequestGap]):
		q.nakExpected()
	}
}

// carryOutKept executes kept requests that are next in sequence. It returns false if one of them
// was refused.
func (q *QP) carryOutKept() bool {
	r, m := &q.resp, &q.lane.reorder
	for {
		k := r.reorder.take(m, r.psn)
		if k == nil {
			return true
		}
		reason := q.carryOut(&k.Packet)
		m.put(k)
		if reason != Taken {
			q.lane.Counters.Dropped[reason]++
			return false
		}
	}
}

// refuse answers a request that was not executed.
func (q *QP) refuse(v outcome) Reason {
	r := &q.resp
	if !q.reliable() {
		// UC: no answer; the message is skipped (IBTA 9.8.3).
		r.msg.class = 0
		r.psn = r.psn.Next()
		switch v {
		case receiverNotReady:
			return DropNoReceive
		case tooLong:
			return DropTooLong
		case remoteAccess:
			return DropAccess
		}
		return DropInvalid
	}
	switch v {
	case receiverNotReady:
		r.nakSent = true
		q.Counts.SentRNRs++
		q.lane.Counters.RNRSent++
		r.ack.nak(r.psn, ib.RNRNAK(ib.RNRTimer(q.Attr().MinRNRTimer)))
		return DropNoReceive
	case silent:
		return DropInvalid
	}
	refusal := &refusals[v]
	if q.HasReceive() { // IBTA 9.9.3.1, class C
		q.CompleteReceive(refusal.status)
	}
	q.lane.Counters.RemoteErrors++
	r.ack.nak(r.psn, ib.NAK(refusal.code))
	q.Raise(refusal.event)
	q.enterError()
	if v == remoteAccess {
		return DropAccess
	}
	return DropInvalid
}
