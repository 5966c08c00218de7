// SPDX-License-Identifier: Apache-2.0

package ibta

import (
	"github.com/ramjet-rdma/ramjet/internal/memory"
	"github.com/ramjet-rdma/ramjet/internal/queue"
	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/wire/ib"
)

// responder takes requests (IBTA 9.7.4, 9.8.2).
type responder struct {
	psn     ib.PSN // expected next
	plain   ib.PSN // of the last request that has no response of its own
	msn     uint32 // messages completed, modulo 2^24
	told    bool   // a NAK for psn was sent: silence until it comes
	heard   bool   // something arrived in RTR
	msg     message
	flush   *Flush // at psn, being carried out; nil: none is
	early   *early // requests ahead of psn; nil: there never were any
	ack     ackState
	replies replies
}

// message is what of a message has arrived.
type message struct {
	class ib.Class // of the message under way; 0: none
	off   int      // bytes that have arrived

	target memory.Span // WRITE
	length int         // WRITE: bytes that were announced

	hasRecv bool // recv was taken for it
	queue   *RecvQueue
	recv    queue.RecvWQE
	scatter memory.Cursor
}

func (r *responder) start(psn ib.PSN) { r.psn, r.plain = psn, psn.Add(-1) }

// outcome is the verdict on a request; the error classes are those of IBTA 9.9.3.
type outcome uint8

const (
	accept            outcome = iota
	invalidRequest            // NAK invalid request
	remoteAccess              // NAK remote access error
	remoteOperational         // NAK remote operational error
	receiverNotReady          // RNR NAK
	tooLong                   // UC: drop the message, keep its receive for the next one (class D)
	silent                    // drop without a word
	underWay                  // a FLUSH: Flush.Done goes on
)

// handleRequest takes a request packet: the order of the checks is that of IBTA 9.7.4.1.
func (q *QP) handleRequest(now Time, p *ib.Packet) Reason {
	r := &q.resp
	if q.Type == verbs.XRCIni {
		return DropInvalid
	}
	if !r.heard {
		r.heard = true
		if q.state == verbs.RTR {
			q.Device.Outbox.Raise(verbs.EventCommEstablished, q.Owner)
		}
	}
	if r.flush != nil && !p.PSN.Before(r.psn) {
		return q.duringFlush(p)
	}
	if r.early != nil {
		r.early.gap.follows(p.PSN, r.psn)
	}
	if p.PSN != r.psn {
		if !q.reliable() {
			return q.resynchronize(now, p)
		}
		if p.PSN.Before(r.psn) {
			return q.duplicate(p)
		}
		return q.ahead(now, p)
	}
	reason := q.carryOut(p)
	if r.early != nil && reason == Taken {
		q.catchUp(now)
	}
	return reason
}

// carryOut takes the request packet that is next in sequence.
func (q *QP) carryOut(p *ib.Packet) Reason {
	r := &q.resp
	r.told = false
	info := p.Opcode.Info()
	verdict, packets := q.execute(p, info)
	if r.early != nil && (verdict == accept || verdict == underWay) {
		r.early.forget(&q.Device.early, r.psn, packets) // a FLUSH may have held up what was kept
	}
	if verdict == accept {
		r.psn = r.psn.Add(packets)
		if info.Last {
			r.msn = (r.msn + 1) & 0xffffff
			r.msg.class = 0
		}
		if q.reliable() && !answered(info.Class) {
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
	return q.refuse(verdict)
}

// answered says whether requests of a class are answered with a response of their own.
func answered(c ib.Class) bool {
	switch c {
	case ib.ClassReadRequest, ib.ClassAtomic, ib.ClassAtomicWrite, ib.ClassFlush:
		return true
	}
	return false
}

// resynchronize handles a gap in UC: the message under way is lost, and a message can only
// begin with its first packet (IBTA 9.8.2.2).
func (q *QP) resynchronize(now Time, p *ib.Packet) Reason {
	r := &q.resp
	r.msg.class = 0
	if !p.Opcode.Info().First {
		r.psn = p.PSN.Next()
		return DropSequence
	}
	r.psn = p.PSN
	return q.handleRequest(now, p)
}

// ahead keeps a request beyond the expected one, and asks for what is missing: it is lost, or
// late (IBTA 9.7.5.1.1).
func (q *QP) ahead(now Time, p *ib.Packet) Reason {
	r := &q.resp
	q.Device.Counters.OutOfSequence++
	if r.early == nil {
		r.early = &early{gap: gap{high: p.PSN}}
	}
	kept := p.PSN.Sub(r.psn) <= maxAhead && r.early.keep(&q.Device.early, p)
	if !r.told && r.early.gap.miss(now, r.psn) {
		q.tellMissing()
	}
	if !kept {
		return DropSequence
	}
	q.Device.Counters.Early++
	return Taken
}

// tellMissing sends a NAK for the expected request.
func (q *QP) tellMissing() {
	r := &q.resp
	r.told = true
	q.Device.Counters.NAKSent++
	r.ack.nak(r.psn, ib.NAK(ib.NAKPSNSequenceError))
}

// catchUp carries out what had come before the request that just came. A requester that was
// told, and has gone back, hears at once how far it need not.
func (q *QP) catchUp(now Time) {
	r, m := &q.resp, &q.Device.early
	e := r.early
	told, from := e.gap.came(now), r.psn
	for {
		k := e.take(m, r.psn)
		if k == nil {
			break
		}
		reason := q.carryOut(&k.Packet)
		m.put(k)
		if reason != Taken {
			q.Device.Counters.Dropped[reason]++
			return
		}
	}
	switch {
	case r.flush != nil: // it goes on when that is done
	case told && r.psn != from:
		r.ack.acknowledge(r.plain)
	case !told && len(e.kept) > 0 && e.gap.miss(now, r.psn):
		q.tellMissing()
	}
}

// refuse answers a request that was not carried out.
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
		r.told = true
		q.Device.Counters.RNRSent++
		r.ack.nak(r.psn, ib.RNRNAK(ib.RNRTimer(q.attr.MinRNRTimer)))
		return DropNoReceive
	case silent:
		return DropInvalid
	}
	code, event, status := ib.NAKInvalidRequest, verbs.EventQPRequestError, verbs.RemoteInvalidRequestError
	switch v {
	case remoteAccess:
		code, event, status = ib.NAKRemoteAccessError, verbs.EventQPAccessError, verbs.RemoteAccessError
	case remoteOperational:
		code, event, status = ib.NAKRemoteOperationalError, verbs.EventQPFatal, verbs.RemoteOperationError
	}
	if r.msg.hasRecv { // IBTA 9.9.3.1, class C
		q.completeRecvError(status)
	}
	q.Device.Counters.RemoteErrors++
	r.ack.nak(r.psn, ib.NAK(code))
	q.Device.Outbox.Raise(event, q.Owner)
	q.enterError()
	if v == remoteAccess {
		return DropAccess
	}
	return DropInvalid
}
