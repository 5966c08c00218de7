// SPDX-License-Identifier: Apache-2.0

package ibta

import (
	"time"

	"github.com/ramjet-rdma/ramjet/internal/core/clock"
	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/wire/ib"
)

// retry is the requester's state of losses and timeouts (IBTA 9.9.2).
type retry struct {
	retransmitAt clock.Time // zero: nothing is outstanding
	quietUntil   clock.Time // receiver not ready, or too slow: nothing is sent before this time
	progressAt   clock.Time // when something was last acknowledged
	wait         clock.Time // current retransmission timeout
	atLeast      clock.Time // lower limit of the timeout, until what was sent only once is acknowledged
	retries      int        // NAKs without progress
	rnrRetries   int
	timeouts     int    // since the last acknowledgement, or since a slow peer has kept up
	silentAt     ib.PSN // the oldest packet in flight at the last timeout
	recover      ib.PSN // a loss before this PSN has already been reacted to
	once         ib.PSN // packets from here on were sent only once
	asked        bool   // went back for a lost response; what follows it is no new sign of loss
	rtt          roundTrip
	late         lateness
}

// roundTrip estimates the time until an acknowledgement arrives, from packets that requested one.
// Only what was sent once is a sample, because nobody can tell which copy is acknowledged (Karn's
// algorithm, RFC 6298 section 3).
type roundTrip struct {
	sentAt    clock.Time // when the measured packet was sent; zero: none
	psn       ib.PSN
	again     bool       // it was retransmitted since
	smoothed  clock.Time // zero: no sample yet
	variation clock.Time
}

// sent begins a measurement unless one is in progress.
func (m *roundTrip) sent(now clock.Time, psn ib.PSN) {
	if m.sentAt == 0 {
		m.sentAt, m.psn, m.again = now, psn, false
	}
}

// answered ends the measurement if psn covers its packet, and returns the time it took; zero: it
// goes on. If the packet was sent more than once, that time is no sample, but a lower limit.
func (m *roundTrip) answered(now clock.Time, psn ib.PSN) (took clock.Time, sample bool) {
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

// timeout returns how long to wait for an acknowledgement: zero before the first sample. It is RFC
// 6298's, but at least two round trips, because acknowledgements are requested and sent in clumps.
func (m *roundTrip) timeout() clock.Time { return m.smoothed + max(m.smoothed, 4*m.variation) }

const (
	// firstWait is the shortest time after which packets are retransmitted, unless the queue pair's
	// own timeout is shorter. A lost last packet need not cost that whole timeout. The packet is
	// then retransmitted at least once per timeout.
	firstWait = clock.Time(8 * time.Millisecond)
	// longestWait is the longest retransmission timeout, unless the round trip is longer.
	longestWait = clock.Time(time.Second)
	// A timeout may take up to four times its value (IBTA 9.7.6.1.3): a peer in user space that has
	// no processor for a while is silent, but not gone. This extends no timeout beyond maxLongerTimeout,
	// which gives such a peer two seconds with seven retries.
	timeoutFactor    = 4
	maxLongerTimeout = timeoutFactor * (clock.Time(4096) << 14)
)

// timeout returns the queue pair's local acknowledgement timeout (IBTA 9.9.2.1.1); zero:
// none.
func (q *QP) timeout() clock.Time {
	if q.Attr().Timeout == 0 {
		return 0
	}
	return clock.Time(4096) << q.Attr().Timeout
}

// silenceLimit returns how long the peer may be silent until its queue pair is given up: one timeout,
// and RetryCount more; zero: without limit.
func (q *QP) silenceLimit() clock.Time {
	t := q.timeout()
	return clock.Time(1+q.Attr().RetryCount) * max(t, min(timeoutFactor*t, maxLongerTimeout))
}

// slow reports whether the peer has timed out a second time. It may have a long queue of what was
// sent before, and take it more slowly than whole windows would arrive.
func (r *retry) slow() bool { return r.timeouts > 0 }

// recoveredPackets is how many packets a slow peer acknowledges between two timeouts to count as slow no
// longer: at least what a closed window holds, at 192 bytes each.
const recoveredPackets = minWindow / 192

// enough reports whether no packet from psn on may be in flight to a slow peer: one at first, and
// as many more as it has acknowledged since, which doubles them every round trip.
func (r *requester) enough(psn ib.PSN) bool {
	oldest := r.unacked()
	return psn.Sub(oldest) > oldest.Sub(r.silentAt)
}

// armRetransmit starts the timer for what was just sent, unless it runs.
func (q *QP) armRetransmit(now clock.Time) {
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

// retransmitAfter sets the timer to the current retransmission timeout, but no later than when the
// peer is given up.
func (q *QP) retransmitAfter(now clock.Time) {
	r := &q.req
	r.retransmitAt = now + r.wait
	if p := q.silenceLimit(); p != 0 {
		r.retransmitAt = min(r.retransmitAt, r.progressAt+p)
	}
}

// shortestWait returns the retransmission timeout while nothing is lost.
func (q *QP) shortestWait() clock.Time {
	wait := firstWait
	if t := q.timeout(); t != 0 {
		wait = min(wait, t)
	}
	return max(wait, q.req.rtt.timeout())
}

// measure ends the measurement of a round trip that an acknowledgement of psn covers. As long as
// only retransmitted packets are acknowledged, the round trip may be as long as that took, and
// nothing is retransmitted sooner.
func (q *QP) measure(now clock.Time, psn ib.PSN) {
	took, sample := q.req.rtt.answered(now, psn)
	switch {
	case sample:
		q.path.Flow.sample(now, took)
	case took != 0:
		q.req.atLeast = min(took+took/4, longestWait)
	}
}

// progress records an acknowledgement. The retransmission timeout shrinks gradually, because the
// acknowledgement may be of an early copy, until it is of a packet that was sent only once.
func (q *QP) progress(now clock.Time) {
	r := &q.req
	q.path.Flow.ask(now)
	q.noteLate()
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
	if sentOnce || !r.slow() || done.Sub(r.silentAt) >= recoveredPackets {
		r.timeouts = 0
	}
	if r.recover.Before(done) {
		r.recover = done // kept up to date, so that it stays within half the circle
	}
	if r.outstanding() {
		q.armRetransmit(now)
	}
}

// retransmitTimeout goes back to the oldest packet, waits on for an acknowledgement that is only late, or gives
// up.
func (q *QP) retransmitTimeout(now clock.Time) {
	r := &q.req
	due := r.retransmitAt
	r.retransmitAt = 0
	if !r.outstanding() {
		return
	}
	onlyLate := q.onlyLate(now, due)
	if p := q.silenceLimit(); p != 0 && now-r.progressAt >= p {
		q.Device.Counters.Timeouts++
		q.Device.Counters.RetryExceeded++
		q.fail(verbs.RetryExceeded)
		return
	}
	if onlyLate {
		r.late.overdue = true
	} else {
		q.Device.Counters.Timeouts++
		q.Counts.Timeouts++
		r.timeouts++
		r.silentAt = r.unacked()
		r.asked = false
		r.recover = r.high
		q.rewind()
		r.late.unproven = true
		q.path.Flow.silent(now)
	}
	longest := longestWait
	if t := q.timeout(); t != 0 {
		longest = min(longest, t)
	}
	r.wait = max(r.wait, min(2*r.wait, longest))
	q.retransmitAfter(now)
}

// sequenceError handles a NAK for a packet that the peer is missing.
func (q *QP) sequenceError(now clock.Time) {
	r := &q.req
	q.Counts.SequenceErrors++
	q.Device.Counters.NAKReceived++
	if r.retries++; r.retries > int(q.Attr().RetryCount) {
		q.Device.Counters.RetryExceeded++
		q.fail(verbs.RetryExceeded)
		return
	}
	q.reactToLoss(now)
	q.rewind()
}

// rnr handles an RNR NAK: the peer has no receive posted (IBTA 9.7.5.2.8).
func (q *QP) rnr(now clock.Time, timer ib.RNRTimer) {
	r := &q.req
	q.Counts.RNRs++
	q.Device.Counters.RNRReceived++
	if q.Attr().RNRRetry != 7 {
		if r.rnrRetries++; r.rnrRetries > int(q.Attr().RNRRetry) {
			q.fail(verbs.RNRRetryExceeded)
			return
		}
	}
	q.reactToLoss(now)
	q.rewind()
	r.retransmitAt = 0
	r.quietUntil = now + clock.Time(timer.Duration())
}

// reactToLoss shrinks the window, once for everything that was in flight.
func (q *QP) reactToLoss(now clock.Time) {
	r := &q.req
	if r.sq.Len() > 0 && !r.unacked().Before(r.recover) {
		q.path.Flow.lost(now)
		r.recover = r.high
	}
}

// rewind goes back to the oldest unacknowledged packet.
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
	r.late = lateness{losses: r.late.losses}
	q.leaveFlow()
}

// leaveFlow returns what the queue pair takes of its flow, and its place in line.
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
	if q.path != nil {
		q.path.Flow.quit(q)
	}
	q.req.retransmitAt, q.req.quietUntil = 0, 0
	q.req.gather.Reset()
	q.req.landing.Reset()
	q.req.gathering, q.req.landingOK = false, false
}
