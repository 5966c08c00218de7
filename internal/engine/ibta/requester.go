// SPDX-License-Identifier: Apache-2.0

package ibta

import (
	"github.com/ramjet-rdma/ramjet/internal/base/clock"
	"github.com/ramjet-rdma/ramjet/internal/base/memory"
	"github.com/ramjet-rdma/ramjet/internal/base/queue"
	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/wire/ib"
)

// requester turns send work requests into request packets (IBTA 9.7.3).
//
// The send queue holds work requests that have not completed, oldest first. Packets of its front up to acked are
// acknowledged. Everything before work request next, and the first sent packets of next itself, is
// in flight. Going back means setting next and sent to the oldest unacknowledged packet.
type requester struct {
	sq      queue.Ring[sendWQE]
	next    int
	sent    int
	acked   int
	nextPSN ib.PSN // of the next work request that is posted
	high    ib.PSN // beyond all packets ever sent

	reads        []readRange // READ requests and atomics whose responses are outstanding
	beyondWindow bool        // the current packet leaves beyond the window
	sending      bool        // something was added to the current send
	lastAcked    int         // work requests that the last acknowledgement completed

	sinceAck int    // cost of packets since the last with AckReq
	askedEnd ib.PSN // beyond that one

	gather    memory.Cursor // the memory of work request next
	gatherFor ib.PSN        // its first PSN, where gathering is set
	gathering bool
	landing   memory.Cursor // where the responses of the oldest work request go
	landingOK bool

	retry
	reorder *reorderBuffer // responses that came before others; nil: there never were any
}

// readRange is a request that is answered with responses.
type readRange struct {
	last  ib.PSN
	bytes int
}

func (r *requester) start(psn ib.PSN) {
	r.nextPSN, r.high, r.askedEnd = psn, psn, psn
	r.retry.start(psn)
}

// unacked returns the PSN of the oldest packet that is not acknowledged; valid with a
// send queue that is not empty.
func (r *requester) unacked() ib.PSN { return r.sq.Front().first.Add(r.acked) }

// current returns the PSN of the packet that is sent next.
func (r *requester) current() ib.PSN {
	if r.next < r.sq.Len() {
		return r.sq.At(r.next).first.Add(r.sent)
	}
	return r.nextPSN
}

// outstanding reports whether anything that was sent has not been acknowledged.
func (r *requester) outstanding() bool { return r.next > 0 || r.sent > r.acked }

// ackComing reports whether an acknowledgement of something in flight was requested.
func (r *requester) ackComing() bool { return r.unacked().Before(r.askedEnd) }

// AwaitsAck reports whether a program can be waiting at a completion queue only for the end of its
// send work requests, and whether the queue will report the last one.
func (q *QP) AwaitsAck(cq *queue.CQ) bool {
	n := q.req.sq.Len()
	return q.SendCQ == cq && n > 0 && (q.RecvCQ != cq || q.Recv == nil || q.Recv.Len() == 0) &&
		(q.SignalAll || q.req.sq.At(n-1).Flags&verbs.Signaled != 0)
}

// Eager reports whether a message posted now should leave at once. While many packets are in flight
// and less than a full send waits, it can join the next send. A program that had many messages
// acknowledged together is about to post many: while one is in flight, the others can wait to be
// sent together.
func (q *QP) Eager() bool {
	r := &q.req
	if r.sq.Len() == 0 || !q.reliable() {
		return true
	}
	const fullSend = 64
	eager := 8
	if r.lastAcked >= fullSend/4 {
		eager = 1
	}
	cur := r.nextPSN
	if r.next < r.sq.Len() {
		cur = r.sq.At(r.next).first.Add(r.sent)
	}
	return cur.Sub(r.unacked()) < eager || r.nextPSN.Sub(cur) >= fullSend
}

// request fills b with request packets.
func (q *QP) request(now clock.Time, b *Batch) {
	if q.State() != verbs.StateRTS && q.State() != verbs.StateSQD || q.timers.running(timerQuiet) {
		return
	}
	r := &q.req
	r.sending = false
	for q.requestAgain(now, b) && r.next < r.sq.Len() {
		w := r.sq.At(r.next)
		if w.Status != verbs.StatusSuccess || r.sent == 0 && !q.mayBegin(w) ||
			r.slow() && r.enough(w.first.Add(r.sent), r.unacked()) {
			break
		}
		if w.packets == 0 {
			if !q.local(w) {
				break
			}
			continue
		}
		if !q.requestPacket(now, w, b) {
			break
		}
		q.requestMiddles(now, w, b)
		if r.sent == w.packets {
			r.next, r.sent = r.next+1, 0
			r.gathering = false
			if !q.reliable() {
				q.CompleteSend(&r.sq.Front().SendWQE, verbs.StatusSuccess)
				r.sq.PopFront()
				r.next = 0
			}
		}
	}
	if !r.sending && !b.full && q.av != nil {
		q.av.Flow.endQuantum(&q.share)
	}
	if r.sending && q.reliable() {
		q.av.Flow.sent(now, &q.share)
		if !q.timers.running(timerRetransmit) { // nothing else is in flight
			r.late.losses = q.losses()
		}
		r.retry.sent(now, &q.timers)
	}
	q.failOldest()
	q.checkDrained()
}

// mayBegin holds back a work request with a fence until all responses have arrived (IBTA 10.8.3.3),
// and in SQD all that were not begun before.
func (q *QP) mayBegin(w *sendWQE) bool {
	if q.State() == verbs.StateSQD && !q.begun(w) {
		return false
	}
	return w.Flags&verbs.Fence == 0 || len(q.req.reads) == 0
}

// begun reports whether any part of w, which is work request next, was ever executed.
func (q *QP) begun(w *sendWQE) bool {
	return q.req.sent > 0 || w.done || q.reliable() && w.packets > 0 && w.first.Before(q.req.high)
}

// local executes a work request that sends nothing.
func (q *QP) local(w *sendWQE) bool {
	if !w.done {
		if !q.DoLocal(&w.SendWQE) {
			return false
		}
		w.done = true
	}
	if q.req.next > 0 {
		q.req.next++
		return true
	}
	q.CompleteSend(&w.SendWQE, verbs.StatusSuccess)
	q.req.sq.PopFront()
	return true
}

// failOldest ends the queue pair's sending if the oldest work request cannot be executed, once
// nothing of it is in flight.
func (q *QP) failOldest() {
	r := &q.req
	if r.next == 0 && (r.sent == r.acked || !q.reliable()) && r.sq.Len() > 0 {
		w := r.sq.Front()
		if w.Status != verbs.StatusSuccess && (q.State() != verbs.StateSQD || q.begun(w)) {
			q.fail(w.Status)
		}
	}
}

// requestPacket appends the next packet of w. It returns false if none can leave now.
func (q *QP) requestPacket(now clock.Time, w *sendWQE, b *Batch) bool {
	r, mtu := &q.req, q.mtuFor(w)
	n, packets := 0, 1 // payload bytes, and PSNs that the packet takes
	if w.row().payload {
		n = w.bytesBefore(r.sent+1, mtu) - w.bytesBefore(r.sent, mtu)
		if w.packets == 1 {
			n = int(w.Length)
		}
		if !q.setGather(w) {
			return false
		}
		r.gather.Seek(w.bytesBefore(r.sent, mtu))
	}
	to := q.av
	if q.Type == verbs.UD {
		to = w.to
	}
	readBytes := 0
	if w.row().responses {
		if w.chunk == 0 {
			w.chunk = max(1, to.Flow.readChunk()/mtu)
		}
		packets = min(w.packets-r.sent, w.chunk-r.sent%w.chunk)
		readBytes = w.bytesBefore(r.sent+packets, mtu) - w.bytesBefore(r.sent, mtu)
	}
	if q.reliable() {
		if w.Responds() && len(r.reads) >= int(q.Attr().MaxRdAtomic) {
			return false
		}
		if readBytes > 0 && !q.admit(now, forReads, readBytes, readBytes) ||
			!q.admit(now, forRequests, n+q.overhead(), q.firstNeed(w, n)) {
			return false
		}
	} else if q.overruns(now, to, n) {
		return false
	}
	h := q.requestHeader(w, r.sent, packets)
	size := packetSize(h.Opcode, n)
	if !b.fits(to, size, h.DestQP) {
		return false
	}
	if h.Opcode.Info().Class == ib.ClassReadRequest {
		h.RETH.DMALen = uint32(readBytes)
	}
	if q.reliable() {
		h.AckReq = q.wantAck(w, h, n, b.ends(size))
	}
	if !b.add(to, h, &r.gather, n) {
		w.Status = verbs.StatusLocalProtectionError
		return false
	}
	if q.reliable() {
		q.account(now, w, h, packets, readBytes)
	}
	r.sent += packets
	r.sending = true
	q.Counts.SentPackets++
	c := &q.lane.Counters
	c.SentPackets++
	c.SentBytes += uint64(n)
	return true
}

func (q *QP) mtuFor(w *sendWQE) int {
	if q.Type == verbs.UD {
		return q.Port().MTU
	}
	return q.mtu()
}

// requestMiddles appends packets of w as long as they differ from the previous one only in PSN, or
// also in address: the middle of a long message, which is most of it.
func (q *QP) requestMiddles(now clock.Time, w *sendWQE, b *Batch) {
	r, mtu := &q.req, q.mtuFor(w)
	h := &q.lane.header
	if r.slow() {
		return
	}
	if w.divided {
		if h.Opcode.Operation() != ib.OpWriteOnly {
			return
		}
	} else if w.Responds() || h.Opcode.Operation() != w.row().middle || h.Opcode.Info().Headers != 0 {
		return
	}
	size := packetSize(h.Opcode, mtu)
	for r.sent < w.packets-1 && b.fits(q.av, size, h.DestQP) {
		if q.reliable() && !q.inQuantum(now, forRequests, mtu+q.overhead()) {
			return // requestPacket, which comes next, waits for it
		}
		h.PSN = h.PSN.Next()
		h.RETH.VA += uint64(mtu) // if it has one
		h.AckReq = q.reliable() && q.wantAck(w, h, mtu, b.ends(size))
		if !b.repeat(h, &r.gather, mtu) {
			w.Status = verbs.StatusLocalProtectionError
			return
		}
		if q.reliable() {
			q.account(now, w, h, 1, 0)
		} else {
			q.lane.pace.unseen += mtu + q.overhead()
		}
		r.sent++
		q.Counts.SentPackets++
		q.lane.Counters.SentPackets++
		q.lane.Counters.SentBytes += uint64(mtu)
	}
}

// firstNeed returns the room that a packet with n bytes of payload needs as the first of a send: a
// full send, or the rest of the last message.
func (q *QP) firstNeed(w *sendWQE, n int) int {
	need := q.av.Flow.fullSend()
	switch {
	case w.Responds():
		return n + q.overhead()
	case !q.followed():
		need = min(need, q.cost(w, q.req.sent, w.packets))
	}
	return max(need, n+q.overhead())
}

// admit reports whether a packet may leave: it is within q's quantum, and there is room for need more bytes,
// or for first if a quantum begins. Otherwise q waits: in line for its flow, or for its own congestion control. One
// packet may leave nevertheless, to request an acknowledgement of the packets in flight if none of them has.
func (q *QP) admit(now clock.Time, l line, need, first int) bool {
	r, f, m := &q.req, q.av.Flow, &q.share
	own := m.ownFits(now, l, need)
	if r.beyondWindow = false; own && (f.inQuantum(now, m, l, need, r.sending) || f.begin(now, m, l, first)) {
		return true
	}
	if l == forRequests && r.outstanding() && !r.ackComing() {
		f.endQuantum(m)
		r.beyondWindow = true
		return true
	}
	if own {
		f.wait(now, m, l, first)
		return false
	}
	f.forget(m) // others may go on
	if m.own.allows.Next > now {
		q.timers.set(timerSend, m.own.allows.Next)
	}
	return false
}

// inQuantum reports whether need more bytes are within q's quantum, and there is room for them.
func (q *QP) inQuantum(now clock.Time, l line, need int) bool {
	return q.share.ownFits(now, l, need) && q.av.Flow.inQuantum(now, &q.share, l, need, q.req.sending)
}

// setGather points the gather cursor at the memory of w.
func (q *QP) setGather(w *sendWQE) bool {
	r := &q.req
	if r.gathering && r.gatherFor == w.first {
		return true
	}
	if w.Copied {
		r.gather.Reset()
		r.gather.Add(memory.Inline(w.Inline))
	} else if !r.gather.Set(q.Device.Memory, q.PD, w.SGL, false) {
		w.Status = verbs.StatusLocalProtectionError
		return false
	}
	r.gathering, r.gatherFor = true, w.first
	return true
}

// requestHeader builds the headers of packet i of w, which takes so many PSNs.
func (q *QP) requestHeader(w *sendWQE, i, packets int) *ib.Packet {
	row, h := w.row(), &q.lane.header
	first, last := i == 0, i+packets == w.packets
	op := row.middle
	switch {
	case last && (first || w.divided) || w.Responds():
		op = row.only
	case w.divided:
		op = ib.OpWriteOnly
	case first:
		op = row.first
	case last:
		op = row.last
	}
	h.BTH = ib.BTH{Opcode: q.transport().Join(op), PKey: q.PKey(), DestQP: q.Attr().DestQPN, PSN: w.first.Add(i)}
	if q.Type == verbs.XRCIni {
		h.XRCETH.SRQN = w.srqn
	}
	if last {
		h.SolicitedEvent = w.Flags&verbs.Solicited != 0
		h.Imm = ib.ImmDt(w.Imm)
		h.IETH.RKey = w.Key
	}
	switch headers := h.Opcode.Info().Headers; {
	case headers&ib.HasRETH != 0:
		before := w.bytesBefore(i, q.mtu())
		h.RETH = ib.RETH{VA: w.Remote.Addr + uint64(before), RKey: w.Remote.Key, DMALen: w.Length}
		if w.divided {
			h.RETH.DMALen = uint32(w.bytesBefore(i+1, q.mtu()) - before)
		}
		if headers&ib.HasFETH != 0 {
			h.FETH = ib.FETH{Placement: ib.Placement(w.flush.level), Selectivity: ib.Selectivity(w.flush.scope)}
		}
	case headers&ib.HasAtomicETH != 0:
		h.AtomicETH = ib.AtomicETH{VA: w.Remote.Addr, RKey: w.Remote.Key, Swap: w.Swap, Compare: w.Compare}
	}
	if q.Type == verbs.UD {
		h.DestQP = w.qpn
		h.DETH = ib.DETH{QKey: w.qkey, SrcQP: q.Num}
		if w.qkey.Controlled() {
			h.DETH.QKey = q.Attr().QKey // IBTA 10.2.5
		}
	}
	return h
}

// followed reports whether acknowledged requests directly follow work request next.
func (q *QP) followed() bool {
	r := &q.req
	if r.next+1 == r.sq.Len() || q.State() != verbs.StateRTS {
		return false
	}
	w := r.sq.At(r.next + 1)
	return w.packets > 0 && w.Status == verbs.StatusSuccess && w.Flags&verbs.Fence == 0 && !w.Responds()
}

// wantAck reports whether a packet requests an acknowledgement: the last one of a message that
// nothing follows, the last that fits the window, and enough others to keep the window moving: one
// per quarter of the window that other queue pairs leave, or per quantum while others wait, preferably the
// last of a send. As long as the round trip is not known, the first packet requests one, too.
func (q *QP) wantAck(w *sendWQE, h *ib.Packet, n int, ends bool) bool {
	r, f, m := &q.req, q.av.Flow, &q.share
	r.sinceAck += n + q.overhead()
	last := h.Opcode.Info().Last && (!w.divided || h.PSN == w.first.Add(w.packets-1))
	often, two := f.often(m), n+q.mtu()+2*q.overhead()
	fills := f.fills(m, two)
	ends = ends || fills || f.exceedsQuantum(m, two)
	ask := last && (!q.followed() || w.Flags&(verbs.Signaled|verbs.Solicited) != 0 || q.SignalAll) ||
		r.sinceAck >= often || ends && r.sinceAck >= often/4*3 || h.PSN == r.recover || r.beyondWindow ||
		r.rtt.smoothed == 0 && r.rtt.sentAt == 0 ||
		q.congestion().Telemetry ||
		r.slow() && r.enough(h.PSN.Next(), r.unacked()) || fills && !r.ackComing()
	if ask {
		r.sinceAck, r.askedEnd = 0, h.PSN.Next()
	}
	return ask
}

// account records a packet that leaves.
func (q *QP) account(now clock.Time, w *sendWQE, h *ib.Packet, packets, readBytes int) {
	r, f, m := &q.req, q.av.Flow, &q.share
	psn := h.PSN
	f.take(m, q.cost(w, r.sent, r.sent+packets))
	if w.Responds() {
		r.reads = append(r.reads, readRange{psn.Add(packets - 1), readBytes})
		f.takeReads(m, readBytes)
	}
	end := psn.Add(packets)
	if !end.After(r.high) {
		q.Counts.Retransmitted++
		return
	}
	r.high = end
	if h.AckReq {
		r.rtt.sent(now, psn)
	}
}
