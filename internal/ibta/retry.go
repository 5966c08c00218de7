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
	progressAt   Time // when something was last acknowledged
	wait         Time // present retransmission time
	atLeast      Time // no retransmission time is shorter until what was sent once is acknowledged
	retries      int  // NAKs without progress
	rnrRetries   int
	timeouts     int    // since something was acknowledged, or a slow peer has kept up
	silentAt     ib.PSN // the oldest packet under way when it timed out last
	recover      ib.PSN // a loss before this PSN belongs to a loss already reacted to
	once         ib.PSN // packets from here on were sent only once
	asked        bool   // went back for a lost response; what follows it says nothing new
	rtt          roundTrip
}

// roundTrip estimates the time until an acknowledgement comes, from packets that asked for
// one. Only what was sent once is a sample: nobody can tell which copy is acknowledged
// (Karn's algorithm, RFC 6298 section 3).
type roundTrip struct {
	sentAt    Time // of the packet that is being measured; zero: none is
	psn       ib.PSN
	again     bool // it was sent again since
	smoothed  Time // zero: no sample yet
	variation Time
}

// sent begins a measurement unless one is under way.
func (m *roundTrip) sent(now Time, psn ib.PSN) {
	if m.sentAt == 0 {
		m.sentAt, m.psn, m.again = now, psn, false
	}
}

// answered ends the measurement if psn covers its packet, and returns the time it took;
// zero: it goes on. Where the packet was sent more than once that is no sample, but no
// less than the round trip.
func (m *roundTrip) answered(now Time, psn ib.PSN) (took Time, sample bool) {
	if m.sentAt == 0 || psn.Before(m.psn) {
		return 0, false
	}
	took = max(now-m.sentAt, 1)
	m.sentAt = 0
	if m.again {
		return took, false
	}
	if m.smoothed == 0 {
		m.smoothed, m.variation = took, took/2
		return took, true
	}
	off := took - m.smoothed
	m.smoothed += off / 8
	m.variation += (max(off, -off) - m.variation) / 4
	return took, true
}

// timeout returns how long to wait for an acknowledgement: zero before the first sample.
// It is RFC 6298's, but no less than two round trips, as acknowledgements are asked for
// and answered in clumps.
func (m *roundTrip) timeout() Time { return m.smoothed + max(m.smoothed, 4*m.variation) }

const (
	// firstWait is the shortest time after which packets are sent again, if the queue
	// pair's own timeout is not shorter: a lost last packet need not cost that whole
	// timeout, and the packet is sent again at least once a timeout from then on.
	firstWait = Time(8 * time.Millisecond)
	// longestWait is the longest, unless the round trip is longer.
	longestWait = Time(time.Second)
	// A timeout may take longer than its value, four times as long at most (IBTA
	// 9.7.6.1.3): a peer in user space that has no processor for a while is silent, and
	// not gone. No timeout is made longer than longerUpTo by that, which leaves such a peer
	// two seconds with seven retries.
	longerBy   = 4
	longerUpTo = longerBy * (Time(4096) << 14)
)

// timeout returns the queue pair's local acknowledgement timeout (IBTA 9.9.2.1.1); zero:
// none.
func (q *QP) timeout() Time {
	if q.attr.Timeout == 0 {
		return 0
	}
	return Time(4096) << q.attr.Timeout
}

// patience returns how long the peer may be silent until its queue pair is given up: one
// timeout, and RetryCount more; zero: without end.
func (q *QP) patience() Time {
	t := q.timeout()
	return Time(1+q.attr.RetryCount) * max(t, min(longerBy*t, longerUpTo))
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
	q.retransmitAfter(now)
}

// retransmitAfter sets the clock to the present retransmission time, and to no later than
// when the peer is given up.
func (q *QP) retransmitAfter(now Time) {
	r := &q.req
	r.retransmitAt = now + r.wait
	if p := q.patience(); p != 0 {
		r.retransmitAt = min(r.retransmitAt, r.progressAt+p)
	}
}

// shortestWait returns the retransmission time while nothing is lost.
func (q *QP) shortestWait() Time {
	wait := firstWait
	if t := q.timeout(); t != 0 {
		wait = min(wait, t)
	}
	return max(wait, q.req.rtt.timeout())
}

// measure ends the measurement of a round trip that an acknowledgement of psn covers. As
// long as only packets that were sent again are acknowledged, the round trip may be as
// long as that took, and nothing is sent again sooner.
func (q *QP) measure(now Time, psn ib.PSN) {
	took, sample := q.req.rtt.answered(now, psn)
	switch {
	case sample:
		q.path.Flow.sample(took)
	case took != 0:
		q.req.atLeast = min(took+took/4, longestWait)
	}
}

// progress notes that something was acknowledged. The retransmission time shrinks
// gradually, as the acknowledgement may be of an early copy, until it is of a packet that
// was sent only once.
func (q *QP) progress(now Time) {
	r := &q.req
	r.retries, r.rnrRetries, r.retransmitAt = 0, 0, 0
	r.asked = false
	done := r.high.Add(-1)
	if r.sq.Len() > 0 {
		done = r.unacked().Add(-1)
	}
	sentOnce := !done.Before(r.once)
	if sentOnce {
		r.once, r.wait, r.atLeast = done, 0, 0
	}
	r.wait = max(r.wait/2, r.atLeast, q.shortestWait())
	if sentOnce || !r.slow() || done.Sub(r.silentAt) >= keepsUp {
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
	if p := q.patience(); p != 0 && now-r.progressAt >= p {
		q.Device.Counters.RetryExceeded++
		q.fail(verbs.RetryExceeded)
		return
	}
	r.recover = r.high
	q.rewind()
	q.path.Flow.silent()
	longest := longestWait
	if t := q.timeout(); t != 0 {
		longest = min(longest, t)
	}
	r.wait = max(r.wait, min(2*r.wait, longest))
	q.retransmitAfter(now)
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
	q.reactToLoss()
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
	q.reactToLoss()
	q.rewind()
	r.retransmitAt = 0
	r.quietUntil = now + Time(timer.Duration())
}

// reactToLoss makes the window smaller, once for all that was under way.
func (q *QP) reactToLoss() {
	r := &q.req
	if r.sq.Len() > 0 && !r.unacked().Before(r.recover) {
		q.path.Flow.lost()
		r.recover = r.high
	}
}

// rewind goes back to the oldest packet that is not acknowledged.
func (q *QP) rewind() {
	r := &q.req
	q.Device.Counters.Rewinds++
	r.next, r.sent = 0, r.acked
	r.gathering = false
	r.sinceAck = 0
	if r.sq.Len() > 0 {
		r.askedEnd = r.unacked()
	}
	r.once, r.rtt.again = r.high, true
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
