// SPDX-License-Identifier: Apache-2.0

package ibta

import (
	"time"

	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/wire/ib"
)

// retry is what a requester knows of losses (IBTA 9.9.2).
type retry struct {
	retransmitAt Time // zero: nothing is outstanding
	quietUntil   Time // receiver not ready, or too slow: nothing is sent before
	progressAt   Time // when something was last acknowledged, or the timeout counted
	wait         Time // present retransmission time
	retries      int
	rnrRetries   int
	timeouts     int    // since something was acknowledged, or a slow peer has kept up
	silentAt     ib.PSN // the oldest packet under way when it timed out last
	recover      ib.PSN // a loss before this PSN belongs to a loss already reacted to
	asked        bool   // went back for a lost response; what follows it says nothing new
	rtt          roundTrip
}

// roundTrip estimates the time until an acknowledgement comes, from packets that asked for
// one and were sent only once.
type roundTrip struct {
	sentAt   Time // zero: none is being measured
	psn      ib.PSN
	smoothed Time
}

// sent begins a measurement unless one is under way.
func (m *roundTrip) sent(now Time, psn ib.PSN) {
	if m.sentAt == 0 {
		m.sentAt, m.psn = now, psn
	}
}

// answered ends the measurement if psn covers its packet.
func (m *roundTrip) answered(now Time, psn ib.PSN) {
	if m.sentAt == 0 || psn.Before(m.psn) {
		return
	}
	sample := now - m.sentAt
	m.sentAt = 0
	if m.smoothed == 0 {
		m.smoothed = sample
		return
	}
	m.smoothed += (sample - m.smoothed) / 8
}

// Packets are sent again for the first time after a few round trips, and not before
// firstWait, if the queue pair's own timeout is longer: a lost last packet need not cost the
// whole timeout, and it is sent again at least once a timeout from then on. What counts
// against the retries is longerBy timeouts without progress, as long as the specification
// allows one to take (IBTA 9.7.6.1.3): a peer in user space that has no processor for a while
// is silent, and not gone.
const (
	firstWait  = Time(8 * time.Millisecond)
	roundTrips = 4
	longerBy   = 4
)

// timeout returns the queue pair's local acknowledgement timeout (IBTA 9.9.2.1.1); zero:
// none.
func (q *QP) timeout() Time {
	if q.attr.Timeout == 0 {
		return 0
	}
	return Time(4096) << q.attr.Timeout
}

// slow says whether the peer has been silent for a second time. It may have a long queue of what was
// sent before, which it takes more slowly than whole windows would come to it.
func (r *retry) slow() bool { return r.timeouts > 1 }

// keepsUp is how many packets a slow peer acknowledges between two timeouts before it is slow no
// longer: no fewer than a window that silence has closed holds.
const keepsUp = minWindow / packetOverhead

// enough says whether no packet from psn on may be under way to a slow peer: one is to begin with,
// and as many more as it has acknowledged since, which doubles them in a round trip.
func (r *requester) enough(psn ib.PSN) bool {
	oldest := r.unacked()
	return psn.Sub(oldest) > oldest.Sub(r.silentAt)
}

// armRetransmit starts the clock for what has just been sent, unless it runs.
func (q *QP) armRetransmit(now Time) {
	r := &q.req
	if r.retransmitAt != 0 {
		return
	}
	if r.wait == 0 {
		r.wait = q.shortestWait()
	}
	r.progressAt = now
	r.retransmitAt = now + r.wait
}

// shortestWait returns the retransmission time while nothing is lost.
func (q *QP) shortestWait() Time {
	wait := max(firstWait, roundTrips*q.req.rtt.smoothed)
	if t := q.timeout(); t != 0 {
		wait = min(wait, t)
	}
	return wait
}

// progress notes that something was acknowledged.
func (q *QP) progress(now Time) {
	r := &q.req
	r.retries, r.rnrRetries, r.retransmitAt = 0, 0, 0
	r.wait = max(r.wait/2, q.shortestWait()) // not at once: the acknowledgement may be of an early copy
	r.asked = false
	done := r.high.Add(-1)
	if r.sq.Len() > 0 {
		done = r.unacked().Add(-1)
	}
	if !r.slow() || done.Sub(r.silentAt) >= keepsUp {
		r.timeouts = 0
	}
	if r.recover.Before(done) {
		r.recover = done // keeps up, so that it stays within half the circle
	}
	if r.outstanding() {
		q.armRetransmit(now)
	}
}

// retransmitTimeout goes back to the oldest packet, or gives up.
func (q *QP) retransmitTimeout(now Time) {
	r := &q.req
	r.retransmitAt = 0
	if !r.outstanding() {
		return
	}
	q.Device.Counters.Timeouts++
	r.timeouts++
	r.silentAt = r.unacked()
	r.asked = false
	t := q.timeout()
	if t != 0 && now-r.progressAt >= longerBy*t {
		r.progressAt = now
		if r.retries++; r.retries > int(q.attr.RetryCount) {
			q.Device.Counters.RetryExceeded++
			q.fail(verbs.RetryExceeded)
			return
		}
	}
	since := r.progressAt
	q.rewind()
	q.path.Flow.silent()
	r.wait *= 2
	if t != 0 {
		r.wait = min(r.wait, t, max(longerBy*t-(now-since), Time(time.Millisecond)))
	}
	r.wait = min(r.wait, Time(time.Second))
	r.progressAt, r.retransmitAt = since, now+r.wait
}

// sequenceError handles a NAK for a packet that the peer misses.
func (q *QP) sequenceError(now Time) {
	r := &q.req
	q.Device.Counters.NAKReceived++
	if r.retries++; r.retries > int(q.attr.RetryCount) {
		q.Device.Counters.RetryExceeded++
		q.fail(verbs.RetryExceeded)
		return
	}
	q.rewind()
}

// rnr handles a NAK of a peer that has no receive posted (IBTA 9.7.5.2.8).
func (q *QP) rnr(now Time, timer ib.RNRTimer) {
	r := &q.req
	q.Device.Counters.RNRReceived++
	if q.attr.RNRRetry != 7 {
		if r.rnrRetries++; r.rnrRetries > int(q.attr.RNRRetry) {
			q.fail(verbs.RNRRetryExceeded)
			return
		}
	}
	q.rewind()
	r.retransmitAt = 0
	r.quietUntil = now + Time(timer.Duration())
}

// rewind goes back to the oldest packet that is not acknowledged.
func (q *QP) rewind() {
	r := &q.req
	q.Device.Counters.Rewinds++
	if r.sq.Len() > 0 && !r.unacked().Before(r.recover) {
		q.path.Flow.lost()
		r.recover = r.high
	}
	r.next, r.sent = 0, r.acked
	r.gathering = false
	r.sinceAck = 0
	if r.sq.Len() > 0 {
		r.askedEnd = r.unacked()
	}
	r.rtt.sentAt = 0
	q.leaveFlow()
}

// leaveFlow gives back what the queue pair takes of its flow, and its place in line.
func (q *QP) leaveFlow() {
	r := &q.req
	if q.path != nil {
		f := q.path.Flow
		f.forget(q)
		f.inflight -= r.inflight
		for _, rd := range r.reads {
			f.reads -= rd.bytes
		}
	}
	r.inflight, r.reads = 0, r.reads[:0]
}

// stopRequester ends all sending.
func (q *QP) stopRequester() {
	q.leaveFlow()
	q.req.retransmitAt, q.req.quietUntil = 0, 0
	q.req.gather.Reset()
	q.req.landing.Reset()
	q.req.gathering, q.req.landingOK = false, false
}
