// SPDX-License-Identifier: Apache-2.0

package ibta

import (
	"fmt"
	"time"

	"github.com/ramjet-rdma/ramjet/internal/base/clock"
	"github.com/ramjet-rdma/ramjet/internal/base/queue"
	"github.com/ramjet-rdma/ramjet/internal/engine/congestion"
	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/verbs/driver"
	"github.com/ramjet-rdma/ramjet/wire/ib"
)

// AddressHandle is an address handle of a device that runs this engine.
type AddressHandle interface{ Vector() *Vector }

// Device has the facts of a device, which queue pairs of every lane work with.
type Device struct {
	queue.Device
	// Persist begins to make memory persistent, and calls Flush.Done later. Regions allow
	// FLUSH to persistence only on devices that have it.
	Persist func(*Flush)
	// Network counts lost packets; nil: they are lost without a trace.
	Network Network
	// ReportsLosses is that the network tells of each packet that it loses: QP.RequestLost and ResponseLost are called.
	ReportsLosses bool
	Limits        Limits // of the port
	// Congestion is the congestion control of queue pairs that choose none; nil: a window for each host.
	Congestion *congestion.Choice
	// LineRate returns the bits per second of a port; nil: it is not known.
	LineRate func(port int) float64
}

// Lane holds the counters, completions and scratch memory of queue pairs that work one after the other. All but
// Resolve is ready for use.
type Lane struct {
	// Resolve makes an address vector of its attributes, with the flow that the lane's queue pairs share.
	Resolve  func(verbs.AHAttr) (*Vector, error)
	Counters Counters
	Outbox   queue.Outbox
	pace     pace
	grh      []byte    // scratch
	header   ib.Packet // scratch: of the packet that is being made
	reorder  reorderMemory
}

// QP is a queue pair.
type QP struct {
	queue.Pair
	Device *Device
	lane   *Lane
	av     *Vector // connected transports
	timers timers
	share  member             // of the flow to the peer
	choice *congestion.Choice // of its congestion control; nil: the device's
	req    requester
	resp   responder
	lost   *lostPackets // nil: the network has not reported any
}

// New makes a queue pair of a lane in the RESET state.
func New(d *Device, l *Lane, c queue.Config) *QP {
	q := &QP{Pair: queue.NewPair(&d.Device, &l.Outbox, c), Device: d, lane: l}
	q.share.qp = q
	return q
}

// AV returns the address vector of the peer, nil before RTR and for datagrams.
func (q *QP) AV() *Vector { return q.av }

// Query returns the present attributes, with the PSNs that come next.
func (q *QP) Query() verbs.QPAttr {
	a := q.Pair.Query()
	a.RQPSN, a.SQPSN = q.resp.psn, q.req.nextPSN
	return a
}

// Stats sets the statistics of the queue pair.
func (q *QP) Stats(s *verbs.QPStats) {
	q.Pair.Stats(s)
	s.SendQueue, s.InFlight, s.Window = q.req.sq.Len(), q.share.inflight, 0
	if q.av != nil && q.reliable() {
		s.Window = q.av.Flow.window(&q.share)
	}
	s.Congestion = q.congestion().Name
	if g := q.share.own; g != nil {
		st := g.control.State()
		s.Rate, s.Alpha, s.TargetDelay = int64(st.Rate), st.Alpha, time.Duration(st.Target)
	}
	if q.reliable() {
		s.RetryCount, s.RNRRetry = q.Attr().RetryCount, q.Attr().RNRRetry
	}
	s.RTT, s.RTTVar = time.Duration(q.req.rtt.smoothed), time.Duration(q.req.rtt.variation)
}

// transport returns the top bits of the opcodes that q sends and receives.
func (q *QP) transport() ib.Transport {
	switch q.Type {
	case verbs.UC:
		return ib.TransportUC
	case verbs.UD:
		return ib.TransportUD
	case verbs.XRCIni, verbs.XRCTgt:
		return ib.TransportXRC
	}
	return ib.TransportRC
}

// reliable reports whether requests are acknowledged.
func (q *QP) reliable() bool { return q.Type != verbs.UC && q.Type != verbs.UD }

func (q *QP) mtu() int { return q.Attr().PathMTU.Bytes() }

// HandlePacket takes a packet that is for this queue pair: its ICRC was right and, on a
// connected transport, it came from the peer's address. It returns why the packet was
// dropped, or Taken. The packet's memory is the caller's again on return.
func (q *QP) HandlePacket(now clock.Time, p *ib.Packet, from *Arrival) Reason {
	q.Counts.RecvPackets++
	if q.State() < verbs.StateRTR || q.State() == verbs.StateError {
		return DropState
	}
	if p.Opcode.Transport() != q.transport() {
		if p.Opcode == ib.CNP {
			return q.handleCNP(now, p)
		}
		return DropTransport
	}
	if !p.PKey.Match(q.PKey()) {
		return DropPKey
	}
	if q.Type == verbs.UD {
		return q.receiveDatagram(p, from)
	}
	switch p.Opcode.Info().Class {
	case ib.ClassAck, ib.ClassReadResponse, ib.ClassAtomicAck:
		return q.handleResponse(now, p)
	}
	return q.handleRequest(now, p)
}

// NextPackets fills b with q's next packets, all to one destination; it returns
// false when none may leave now.
func (q *QP) NextPackets(now clock.Time, b *Batch) bool {
	b.Reset()
	return q.AppendPackets(now, b)
}

// AppendPackets is NextPackets for a batch that has packets of other queue pairs already. It
// also returns false, and b is full, when q's next packet does not fit.
func (q *QP) AppendPackets(now clock.Time, b *Batch) bool {
	before := b.Len()
	if q.resp.cnp.owed {
		q.appendCNP(b)
	}
	q.respond(now, b)
	if b.Len() == before {
		q.request(now, b)
	}
	if b.Len() == before && (b.Acks || q.share.own != nil && q.congestion().Prompt) {
		q.acknowledge(b)
	}
	return b.Len() > before
}

// AppendAck adds the acknowledgement that may leave to a batch of q's own packets, which it
// then ends.
func (q *QP) AppendAck(b *Batch) {
	if b.Acks {
		q.acknowledge(b)
	}
}

// HasAck reports whether an acknowledgement waits for Batch.Acks.
func (q *QP) HasAck() bool { return q.resp.ack.pending }

// AckedMessages returns how many requests that asked for an acknowledgement the waiting one
// is for.
func (q *QP) AckedMessages() int { return q.resp.ack.waiting() }

// HandleTimeout handles the timers that have expired at now.
func (q *QP) HandleTimeout(now clock.Time) {
	t := &q.timers
	t.expired(timerQuiet, now)
	if due := t.expired(timerRetransmit, now); due != 0 {
		q.retransmitTimeout(now, due)
	}
	if t.expired(timerNAK, now) != 0 && q.req.outstanding() {
		q.decide(now, q.req.sequenceError(q.req.flight()))
	}
	if t.expired(timerLine, now)|t.expired(timerSend, now)|t.expired(timerRespond, now) != 0 {
		q.av.Flow.ask(now, &q.share)
	}
	if t.expired(timerRequestGap, now) != 0 {
		q.resp.reorder.gap.overdue()
		q.nakExpected()
	}
	if t.expired(timerResponseGap, now) != 0 {
		q.req.reorder.gap.overdue()
		q.responseLost(now)
	}
}

// Deadline returns when HandleTimeout is due; zero: not at all.
func (q *QP) Deadline() clock.Time { return q.timers.next() }

// fail completes the oldest send work request with a status and moves to the state that
// the error leads to: ERR, or SQE on unreliable transports (IBTA 10.3.1.5, 10.10).
func (q *QP) fail(status verbs.Status) {
	if q.req.sq.Len() > 0 {
		w := q.req.sq.Front()
		q.CompleteSend(&w.SendWQE, status)
		if f := q.Failure(); f.ID == w.ID && w.packets > 0 && q.reliable() { // it is not shown yet
			f.PSN, f.HasPSN = w.first.Add(q.req.acked), true
			f.Detail = q.retryDetail(status)
		}
		q.req.sq.PopFront()
	}
	if q.reliable() {
		q.enterError()
		q.Raise(driver.EventQPBroken)
		return
	}
	q.SetState(verbs.StateSQE)
	q.flushSends()
}

// retryDetail says how often a failed request was tried; empty: the status has another cause.
func (q *QP) retryDetail(status verbs.Status) string {
	switch status {
	case verbs.StatusRetryExceeded:
		return fmt.Sprintf("retry_cnt %d, timeout %d", q.Attr().RetryCount, q.Attr().Timeout)
	case verbs.StatusRNRRetryExceeded:
		return fmt.Sprintf("rnr_retry %d", q.Attr().RNRRetry)
	}
	return ""
}

// enterError moves to ERR and flushes both queues.
func (q *QP) enterError() {
	if q.State() == verbs.StateError {
		return
	}
	q.SetState(verbs.StateError)
	q.flushSends()
	q.FlushReceives()
	q.stopRequester()
	q.clearReorder()
}

// clearReorder drops packets that came out of order.
func (q *QP) clearReorder() {
	q.timers.stop(timerRequestGap)
	q.timers.stop(timerResponseGap)
	q.resp.reorder.clear(&q.lane.reorder)
	q.req.reorder.clear(&q.lane.reorder)
}
