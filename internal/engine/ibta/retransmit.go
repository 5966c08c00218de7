// SPDX-License-Identifier: Apache-2.0

package ibta

import (
	"github.com/ramjet-rdma/ramjet/internal/base/clock"
	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/wire/ib"
)

// flight returns the facts that retry must know; valid with a send queue that is not empty.
func (r *requester) flight() flight { return flight{r.unacked(), r.high, r.outstanding(), r.current()} }

// measure has the congestion control know of the round trip that an acknowledgement of psn ends. As long as there is no
// sample, the time of a packet that was sent again will do: the round trip is no longer than that.
func (q *QP) measure(now clock.Time, psn ib.PSN) {
	if took, sample := q.req.measure(now, psn); sample || took != 0 && q.req.rtt.smoothed == 0 {
		q.av.Flow.sample(now, &q.share, took)
	}
}

// progress records an acknowledgement.
func (q *QP) progress(now clock.Time) {
	r := &q.req
	q.av.Flow.ask(now, &q.share)
	q.noteLate()
	done := r.high.Add(-1)
	if r.sq.Len() > 0 {
		done = r.unacked().Add(-1)
	}
	r.acknowledged(now, &q.timers, done, r.outstanding())
}

// retransmitTimeout is called when the timer that was due has expired.
func (q *QP) retransmitTimeout(now, due clock.Time) {
	r := &q.req
	if !r.outstanding() {
		return
	}
	onlyLate := q.onlyLate(now, due)
	v := r.timedOut(now, &q.timers, r.flight(), onlyLate)
	if v.action != nothing {
		q.lane.Counters.Timeouts++
	}
	if v.action == sendAgain {
		q.Counts.Timeouts++
	}
	q.decide(now, v)
}

// sequenceError handles a NAK for a packet that the peer is missing.
func (q *QP) sequenceError(now clock.Time) {
	q.Counts.SequenceErrors++
	q.lane.Counters.NAKReceived++
	if f := q.req.flight(); !q.req.early(now, &q.timers, f) {
		q.decide(now, q.req.sequenceError(f))
	}
}

// rnr handles an RNR NAK.
func (q *QP) rnr(now clock.Time, timer ib.RNRTimer) {
	q.Counts.RNRs++
	q.lane.Counters.RNRReceived++
	q.decide(now, q.req.notReady(now, &q.timers, q.req.flight(), clock.Time(timer.Duration())))
}

// responseLost goes back for a missing response. A packet behind it shows that its request has
// arrived.
func (q *QP) responseLost(now clock.Time) {
	r := &q.req
	if r.sq.Len() == 0 {
		return
	}
	v := r.responseLost(r.flight())
	if v.action == sendAgain {
		q.Counts.LostResponses++
	}
	q.decide(now, v)
}

// decide carries out a verdict.
func (q *QP) decide(now clock.Time, v verdict) {
	switch v.action {
	case giveUp:
		if v.status == verbs.StatusRetryExceeded {
			q.lane.Counters.RetryExceeded++
		}
		q.fail(v.status)
	case sendAgain:
		q.rewind()
		q.req.backAt = now
		q.timers.stop(timerNAK)
		if v.lost {
			q.av.Flow.lost(now, &q.share)
		}
		if v.silent {
			q.av.Flow.silent(now, &q.share)
		}
	}
}

// rewind goes back to the oldest unacknowledged packet.
func (q *QP) rewind() {
	r := &q.req
	q.lane.Counters.Rewinds++
	r.next, r.sent = 0, r.acked
	r.gathering = false
	q.lost.forgetRequests()
	r.sinceAck = 0
	if r.sq.Len() > 0 {
		r.askedEnd = r.unacked()
	}
	q.leaveFlow()
}

// leaveFlow gives back the queue pair's share of its flow, and its place in line.
func (q *QP) leaveFlow() {
	if q.av != nil {
		q.av.Flow.release(&q.share)
	}
	q.req.reads = q.req.reads[:0]
}

// stopRequester ends all sending.
func (q *QP) stopRequester() {
	q.leaveFlow()
	if q.av != nil {
		q.av.Flow.quit(&q.share)
	}
	q.timers.stop(timerRetransmit)
	q.timers.stop(timerNAK)
	q.timers.stop(timerQuiet)
	q.timers.stop(timerSend)
	q.timers.stop(timerRespond)
	q.lost = nil
	q.req.gather.Reset()
	q.req.landing.Reset()
	q.req.gathering, q.req.landingOK = false, false
}
