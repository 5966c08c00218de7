// SPDX-License-Identifier: Apache-2.0

package ibta

import (
	"github.com/ramjet-rdma/ramjet/internal/base/clock"
	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/wire/ib"
)

// Networks whose switches trim packets report each loss: the payload is cut, and the header arrives. The sender of a
// packet that is reported lost sends that packet again, and none behind it: its peer keeps packets that come early. The
// report is no packet of the IBTA's protocol, and comes only if Device.ReportsLosses is set.

// lostPackets are packets that the network has reported lost, in the order of the reports, and that were not sent again
// yet. There are maxAhead of a sort at most.
type lostPackets struct {
	requests, responses []ib.PSN
}

func (q *QP) reported() *lostPackets {
	if q.lost == nil {
		q.lost = &lostPackets{}
	}
	return q.lost
}

// forgetRequests is that all requests in flight are sent again.
func (l *lostPackets) forgetRequests() {
	if l != nil {
		l.requests = l.requests[:0]
	}
}

func withoutFirst(psns []ib.PSN) []ib.PSN { return psns[:copy(psns, psns[1:])] }

// RequestLost tells q that the network has lost a request packet of its own. That packet alone is sent again, at once.
// For a request with a response, or very many losses, q sends everything again from the oldest packet on.
func (q *QP) RequestLost(now clock.Time, psn ib.PSN) {
	r := &q.req
	if !q.reliable() || q.State() < verbs.StateRTS || q.State() == verbs.StateError || !r.inFlight(psn) {
		return
	}
	l := q.reported()
	if w, _ := r.packetAt(psn); w.Responds() || len(l.requests) == maxAhead {
		q.decide(now, r.afterLoss(r.flight()))
		return
	}
	l.requests = append(l.requests, psn)
	if r.oneLost(r.flight()) {
		q.av.Flow.lost(now, &q.share)
	}
}

// ResponseLost tells q that the network has lost a response of its own to the peer's READ. It is sent again by itself.
func (q *QP) ResponseLost(psn ib.PSN) {
	if !q.reliable() || q.State() < verbs.StateRTR || q.State() == verbs.StateError {
		return
	}
	if l := q.reported(); len(l.responses) < maxAhead {
		l.responses = append(l.responses, psn)
	}
}

// respondAgain appends the responses that the network has reported lost, as long as the READ's memory may be read. It
// reports whether none is left.
func (q *QP) respondAgain(now clock.Time, b *Batch) bool {
	r, mtu := &q.resp, q.mtu()
	for len(q.lost.responses) > 0 {
		psn := q.lost.responses[0]
		if a := r.replies.find(psn); a != nil && a.kind == replyRead {
			off := uint32(psn.Sub(a.psn) * mtu)
			p := ib.Packet{BTH: ib.BTH{Opcode: ib.RCReadRequest}, RETH: ib.RETH{VA: a.asked.VA + uint64(off),
				RKey: a.asked.RKey, DMALen: min(a.asked.DMALen-off, uint32(mtu))}}
			one := reply{kind: replyRead, psn: psn, packets: 1, again: true, msn: a.msn}
			var v outcome
			if one.source, v = q.readable(&p); v == accept {
				if q.tooEarly(now) || !q.responsePacket(&one, b) && !one.withdrawn() {
					return false
				}
				q.Counts.Retransmitted++
			}
		}
		q.lost.responses = withoutFirst(q.lost.responses)
	}
	return true
}

// oneLost records the loss of a packet that is sent again alone. It reports whether the congestion control gets the
// loss, which counts once for all packets in flight.
func (r *retry) oneLost(f flight) bool {
	lost := !f.oldest.Before(r.recover)
	if lost {
		r.recover = f.high
	}
	r.once, r.rtt.again = f.high, true
	return lost
}

// inFlight reports whether psn was sent, since the requester went back last, and is not acknowledged.
func (r *requester) inFlight(psn ib.PSN) bool {
	if r.sq.Len() == 0 || psn.Before(r.unacked()) {
		return false
	}
	next := r.nextPSN
	if r.next < r.sq.Len() {
		next = r.sq.At(r.next).first.Add(r.sent)
	}
	return psn.Before(next)
}

// packetAt returns the work request that a packet in flight is of, and the packet's number in it.
func (r *requester) packetAt(psn ib.PSN) (w *sendWQE, i int) {
	i = psn.Sub(r.sq.Front().first)
	for k := range r.sq.Len() {
		if w = r.sq.At(k); i < w.packets {
			break
		}
		i -= w.packets
	}
	return w, i
}

// requestAgain appends the packets that the network has reported lost, and asks for their acknowledgement. It reports
// whether none is left.
func (q *QP) requestAgain(now clock.Time, b *Batch) bool {
	for q.lost != nil && len(q.lost.requests) > 0 {
		if psn := q.lost.requests[0]; q.req.inFlight(psn) && !q.packetAgain(now, psn, b) {
			return false
		}
		q.lost.requests = withoutFirst(q.lost.requests)
	}
	return true
}

// packetAgain appends a packet in flight once more. It returns false if it cannot leave now.
func (q *QP) packetAgain(now clock.Time, psn ib.PSN, b *Batch) bool {
	r, mtu := &q.req, q.mtu()
	w, i := r.packetAt(psn)
	n := w.bytesBefore(i+1, mtu) - w.bytesBefore(i, mtu)
	if own := q.share.own; own != nil && own.early(now, n+q.overhead()) {
		if own.allows.Next > now {
			q.timers.set(timerSend, own.allows.Next)
		}
		return false
	}
	if !q.setGather(w) {
		return true // w has a status now, and ends when it is the oldest
	}
	r.gather.Seek(w.bytesBefore(i, mtu))
	h := q.requestHeader(w, i, 1)
	h.AckReq = true
	if !b.fits(q.av, packetSize(h.Opcode, n), h.DestQP) {
		return false
	}
	if !b.add(q.av, h, &r.gather, n) {
		w.Status = verbs.StatusLocalProtectionError
		return true
	}
	q.share.regulator().burst += n + q.overhead()
	r.sending = true
	if end := psn.Next(); end.After(r.askedEnd) {
		r.askedEnd = end
	}
	q.Counts.SentPackets++
	q.Counts.Retransmitted++
	q.lane.Counters.SentPackets++
	q.lane.Counters.SentBytes += uint64(n)
	return true
}

// newReorderBuffer makes a buffer for packets that came early. high is the first of them. If the network reports its
// losses, a missing packet counts as late, else as lost, until the next packets show which it was.
func (q *QP) newReorderBuffer(high ib.PSN) *reorderBuffer {
	e := &reorderBuffer{gap: gap{high: high}}
	if q.Device.ReportsLosses {
		e.gap.tolerance = maxTolerance
	}
	return e
}
