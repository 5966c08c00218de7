// SPDX-License-Identifier: Apache-2.0

package ibta

import (
	"encoding/binary"

	"github.com/ramjet-rdma/ramjet/internal/base/clock"
	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/wire/ib"
)

// handleResponse handles an acknowledgement or a response to a READ or an atomic (IBTA 9.7.5.1.2,
// 9.7.6.2).
func (q *QP) handleResponse(now clock.Time, p *ib.Packet) Reason {
	r := &q.req
	if r.reorder != nil && p.Opcode.Info().Class != ib.ClassAck && p.PSN.Before(r.high) {
		r.reorder.follows(p.PSN, r.expected())
	}
	psn := p.PSN
	unsent := psn == r.high && p.Opcode.Info().Class == ib.ClassAck && p.AETH.Syndrome == ib.NAK(ib.NAKPSNSequenceError)
	if unsent {
		psn = psn.Add(-1)
	}
	if q.State() < verbs.StateRTS || r.sq.Len() == 0 || !psn.Before(r.high) || psn.Sub(r.unacked()) < -1 {
		return DropGhost
	}
	q.measure(now, psn)
	if unsent {
		// A responder that a forged packet has reached asks for packets that were not sent yet. A
		// NAK acknowledges everything before its PSN (IBTA 9.7.5.1.2), so this one acknowledges
		// everything that was sent.
		q.acked(now, psn)
		return Taken
	}
	if p.Opcode.Info().Class == ib.ClassAck {
		return q.handleAck(now, p)
	}
	if p.PSN.Before(r.unacked()) {
		return DropDuplicate
	}
	if !q.ackedTo(now, p.PSN.Add(-1)) {
		return q.responseAhead(now, p)
	}
	if r.sq.Len() == 0 || r.unacked() != p.PSN || !r.sq.Front().Responds() {
		return DropGhost
	}
	q.land(now, p)
	if r.reorder != nil {
		q.landKept(now)
	}
	q.afterAck()
	return Taken
}

// handleAck handles an ACK or a NAK.
func (q *QP) handleAck(now clock.Time, p *ib.Packet) Reason {
	s := p.AETH.Syndrome
	c := &q.lane.Counters
	c.AcksReceived++
	if s.IsACK() {
		q.acked(now, p.PSN)
		return Taken
	}
	if p.PSN.Before(q.req.unacked()) {
		return DropDuplicate
	}
	// A NAK acknowledges everything before it (IBTA 9.7.5.1.2). Responses that are missing are asked for again; after
	// the time of an RNR NAK, as they may only be late.
	if !q.ackedTo(now, p.PSN.Add(-1)) && !s.IsRNR() {
		q.responseLost(now)
		return Taken
	}
	if q.req.sq.Len() == 0 {
		return Taken
	}
	switch {
	case s.IsRNR():
		q.rnr(now, s.Timer())
	case s.IsNAK() && s.Code() == ib.NAKPSNSequenceError:
		q.sequenceError(now)
	case s.IsNAK():
		c.RemoteErrors++
		q.fail(nakStatus(s.Code()))
	default:
		q.fail(verbs.StatusBadResponseError)
	}
	q.afterAck()
	return Taken
}

// acked handles the acknowledgement of all packets up to and including psn.
func (q *QP) acked(now clock.Time, psn ib.PSN) {
	if !q.ackedTo(now, psn) {
		q.ackAhead(now, psn)
	}
	q.afterAck()
}

// nakStatus returns the completion status for a NAK that cannot be retried (IBTA 9.7.5.2).
func nakStatus(c ib.NAKCode) verbs.Status {
	switch c {
	case ib.NAKInvalidRequest:
		return verbs.StatusRemoteInvalidRequestError
	case ib.NAKRemoteAccessError:
		return verbs.StatusRemoteAccessError
	case ib.NAKRemoteOperationalError:
		return verbs.StatusRemoteOperationError
	}
	return verbs.StatusBadResponseError
}

// ackedTo completes the work requests that an acknowledgement of all packets up to and including psn
// covers. It returns false if that includes a READ or an atomic whose response has not arrived.
func (q *QP) ackedTo(now clock.Time, psn ib.PSN) bool {
	r := &q.req
	moved, waiting := false, r.sq.Len()
	for r.sq.Len() > 0 {
		w := r.sq.Front()
		if w.packets == 0 {
			if !w.done {
				break
			}
			q.popSend(verbs.StatusSuccess)
			continue
		}
		n := min(psn.Sub(w.first)+1, w.packets)
		if n <= r.acked {
			break
		}
		if w.Responds() {
			q.progressIf(now, moved)
			return false
		}
		moved = true
		q.releaseWindow(now, q.cost(w, r.acked, n))
		r.acked = n
		if r.next == 0 {
			r.ackedUnsent(n)
			r.sent = max(r.sent, n)
		}
		if n < w.packets {
			break
		}
		q.popSend(verbs.StatusSuccess)
	}
	if moved {
		r.lastAcked = waiting - r.sq.Len()
	}
	q.progressIf(now, moved)
	return true
}

func (q *QP) progressIf(now clock.Time, moved bool) {
	if moved {
		q.progress(now)
	}
}

// popSend completes the oldest work request.
func (q *QP) popSend(status verbs.Status) {
	r := &q.req
	q.CompleteSend(&r.sq.Front().SendWQE, status)
	r.sq.PopFront()
	r.acked = 0
	r.landingOK = false
	if r.next > 0 {
		r.next--
	} else {
		r.sent = 0
		r.gathering = false
	}
}

func (q *QP) releaseWindow(now clock.Time, cost int) {
	q.av.Flow.acked(now, &q.share, cost)
}

// land handles the next response of the oldest work request.
func (q *QP) land(now clock.Time, p *ib.Packet) {
	r, w := &q.req, q.req.sq.Front()
	payload := p.Payload
	var word [8]byte
	want := 0
	class := ib.ClassReadResponse
	switch {
	case w.row().responses:
		want = w.bytesBefore(r.acked+1, q.mtu()) - w.bytesBefore(r.acked, q.mtu())
	case w.Receives():
		class = ib.ClassAtomicAck
		binary.NativeEndian.PutUint64(word[:], p.AtomicAck.Orig)
		payload, want = word[:], 8
	}
	if p.Opcode.Info().Class != class || len(payload) != want {
		q.fail(verbs.StatusBadResponseError)
		return
	}
	if w.Receives() && want > 0 {
		if !r.landingOK {
			if !r.landing.Set(q.Device.Memory, q.PD, w.SGL, true) {
				q.fail(verbs.StatusLocalProtectionError)
				return
			}
			r.landingOK = true
		}
		r.landing.Seek(w.bytesBefore(r.acked, q.mtu()))
		if !r.landing.Write(q.Device.Memory, payload) {
			q.fail(verbs.StatusLocalProtectionError)
			return
		}
	}
	r.acked++
	if r.next == 0 {
		r.ackedUnsent(r.acked)
		r.sent = max(r.sent, r.acked)
	}
	f := q.av.Flow
	if len(r.reads) > 0 {
		n := min(want, r.reads[0].bytes)
		f.responseArrived(now, &q.share, n)
		r.reads[0].bytes -= n
		if !p.PSN.Before(r.reads[0].last) {
			q.releaseWindow(now, q.overhead())
			f.responseArrived(now, &q.share, r.reads[0].bytes)
			n := copy(r.reads, r.reads[1:])
			r.reads = r.reads[:n]
		}
	}
	if r.acked == w.packets {
		q.popSend(verbs.StatusSuccess)
	}
	q.progress(now)
}

// responseAhead keeps a response that arrived before an earlier one.
func (q *QP) responseAhead(now clock.Time, p *ib.Packet) Reason {
	r := &q.req
	if r.reorder == nil {
		r.reorder = q.newReorderBuffer(p.PSN)
	}
	kept := r.responds(p.PSN) && r.reorder.keep(&q.lane.reorder, q.av.Key, p)
	if r.reorder.gap.miss(now, r.unacked(), &q.timers[timerResponseGap]) {
		q.responseLost(now)
	}
	if !kept {
		return DropSequence
	}
	q.lane.Counters.Early++
	return Taken
}

// ackAhead keeps an acknowledgement that arrived before a response.
func (q *QP) ackAhead(now clock.Time, psn ib.PSN) {
	r := &q.req
	if r.reorder == nil {
		r.reorder = q.newReorderBuffer(r.unacked())
	}
	if e := r.reorder; !e.ack || psn.After(e.acked) {
		e.ack, e.acked = true, psn
	}
	if r.reorder.gap.miss(now, r.unacked(), &q.timers[timerResponseGap]) {
		q.responseLost(now)
	}
}

// responds reports whether a packet that was sent is answered with a response at psn. It counts
// from the oldest on, because the send queue may have more PSNs than can be compared, which is half
// of 2^24.
func (r *requester) responds(psn ib.PSN) bool {
	off := psn.Sub(r.sq.Front().first)
	for i := range r.sq.Len() {
		w := r.sq.At(i)
		if off < w.packets {
			return w.Responds()
		}
		off -= w.packets
	}
	return false
}

// expected returns the PSN of the oldest unacknowledged packet, or of the next one.
func (r *requester) expected() ib.PSN {
	if r.sq.Len() == 0 {
		return r.high
	}
	return r.unacked()
}

// nextResponse returns the PSN of the next response. It returns false if none is outstanding.
func (r *requester) nextResponse() (ib.PSN, bool) {
	for i := range r.sq.Len() {
		if w := r.sq.At(i); w.Responds() && i == 0 {
			return r.unacked(), true
		} else if w.Responds() {
			return w.first, true
		}
	}
	return 0, false
}

// landKept handles kept responses that follow the present one.
func (q *QP) landKept(now clock.Time) {
	r, m := &q.req, &q.lane.reorder
	e := r.reorder
	nakSent := e.gap.filled(now, &q.timers[timerResponseGap])
	for len(e.kept) > 0 {
		psn, ok := r.nextResponse()
		if !ok {
			break
		}
		k := e.take(m, psn)
		if k == nil {
			break
		}
		if q.ackedTo(now, psn.Add(-1)) {
			q.land(now, &k.Packet)
		}
		m.put(k)
	}
	if e.ack && (r.sq.Len() == 0 || q.ackedTo(now, e.acked)) {
		e.ack = false
	}
	if !nakSent && (len(e.kept) > 0 || e.ack) && r.sq.Len() > 0 &&
		e.gap.miss(now, r.unacked(), &q.timers[timerResponseGap]) {
		q.responseLost(now)
	}
}

// afterAck completes work requests that had to wait for the acknowledged ones: local operations, and
// work requests that failed before they were the oldest.
func (q *QP) afterAck() {
	r := &q.req
	for r.sq.Len() > 0 && r.sq.Front().packets == 0 && r.sq.Front().done {
		q.popSend(verbs.StatusSuccess)
	}
	if !r.outstanding() {
		q.timers.stop(timerRetransmit)
	}
	q.failOldest()
	q.checkDrained()
}
