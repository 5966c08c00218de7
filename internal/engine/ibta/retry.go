// SPDX-License-Identifier: Apache-2.0

package ibta

import (
	"time"

	"github.com/ramjet-rdma/ramjet/internal/base/clock"
	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/wire/ib"
)

// retry decides when packets in flight are sent again, and when the peer is given up (IBTA 9.9.2). It is a value: it
// gets events, with the time and the packets in flight, keeps timerRetransmit and timerQuiet, and returns a verdict.
type retry struct {
	limits     retryLimits
	progressAt clock.Time // when something was last acknowledged
	wait       clock.Time // current retransmission timeout
	atLeast    clock.Time // lower limit of the timeout, until a packet that was sent only once is acknowledged
	backAt     clock.Time // when it last went back for a loss; zero: it has not
	timeouts   int32      // since the last acknowledgement, or since a slow peer has kept up
	silentAt   ib.PSN     // the oldest packet in flight at the last timeout
	recover    ib.PSN     // a loss before this PSN has already been reacted to
	once       ib.PSN     // packets from here on were sent only once
	retries    uint8      // NAKs without progress
	rnrRetries uint8
	asked      bool // went back for a lost response; responses behind it are no new sign of loss
	rtt        roundTrip
	late       lateness
}

// flight holds the facts about packets in flight that retry decides by.
type flight struct {
	oldest      ib.PSN // not acknowledged
	high        ib.PSN // beyond all packets ever sent
	outstanding bool   // something is in flight
	next        ib.PSN // that is sent next
}

// verdict is the action after a loss, or after silence.
type verdict struct {
	action verdictAction
	from   ib.PSN       // sendAgain: all packets from here on
	status verbs.Status // giveUp: of the oldest work request
	lost   bool         // report a loss to the congestion control
	silent bool         // or the peer's silence
}

type verdictAction uint8

const (
	nothing verdictAction = iota
	sendAgain
	giveUp
)

// retryLimits are the attributes of a queue pair that limit it.
type retryLimits struct {
	timeout    clock.Time // local acknowledgement timeout; zero: none
	retries    uint8
	rnrRetries uint8 // 7: without limit
}

// retryLimitsOf returns the limits of a queue pair's attributes (IBTA 9.9.2.1.1).
func retryLimitsOf(a *verbs.QPAttr) retryLimits {
	l := retryLimits{retries: a.RetryCount, rnrRetries: a.RNRRetry}
	if a.Timeout != 0 {
		l.timeout = clock.Time(4096) << a.Timeout
	}
	return l
}

// silence returns how long the peer may be silent until its queue pair is given up: one timeout,
// and a further one for each retry; zero: without limit.
func (l *retryLimits) silence() clock.Time {
	return clock.Time(1+l.retries) * max(l.timeout, min(timeoutFactor*l.timeout, maxLongerTimeout))
}

// roundTrip estimates the time until an acknowledgement arrives, from packets that requested one.
// Only packets that were sent once are samples, because it is unknown which copy an acknowledgement is
// for (Karn's algorithm, RFC 6298 section 3).
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

// start begins with the first PSN that is sent.
func (r *retry) start(psn ib.PSN) { r.recover, r.once = psn, psn }

// slow reports whether the peer has timed out a second time. It may have a long queue of earlier
// packets, and take them more slowly than whole windows would arrive.
func (r *retry) slow() bool { return r.timeouts > 0 }

// recoveredPackets is how many packets a slow peer acknowledges between two timeouts to count as slow no
// longer: at least as many as a closed window holds, at 192 bytes each.
const recoveredPackets = 64 << 10 / 192

// enough reports whether no packet from psn on may be in flight to a slow peer: one at first, and
// as many more as it has acknowledged since, which doubles them every round trip.
func (r *retry) enough(psn, oldest ib.PSN) bool {
	return psn.Sub(oldest) > oldest.Sub(r.silentAt)
}

// sent starts the timer for packets that were just sent, unless it runs.
func (r *retry) sent(now clock.Time, t *timers) {
	if t.running(timerRetransmit) {
		return
	}
	if r.wait == 0 {
		r.wait = r.shortestWait()
	}
	r.progressAt = now
	r.waitOn(now, t)
}

// waitOn sets the timer to the current retransmission timeout, but no later than when the
// peer is given up.
func (r *retry) waitOn(now clock.Time, t *timers) {
	due := now + r.wait
	if p := r.limits.silence(); p != 0 {
		due = min(due, r.progressAt+p)
	}
	t.set(timerRetransmit, due)
}

// shortestWait returns the retransmission timeout while nothing is lost.
func (r *retry) shortestWait() clock.Time {
	wait := firstWait
	if r.limits.timeout != 0 {
		wait = min(wait, r.limits.timeout)
	}
	return max(wait, r.rtt.timeout())
}

// measure ends the measurement of a round trip that an acknowledgement of psn covers, and returns it if it is a sample.
// As long as only retransmitted packets are acknowledged, the round trip may be as long as that took, and nothing is
// retransmitted sooner.
func (r *retry) measure(now clock.Time, psn ib.PSN) (took clock.Time, sample bool) {
	took, sample = r.rtt.answered(now, psn)
	if took != 0 && !sample {
		r.atLeast = min(took+took/4, longestWait)
	}
	return took, sample
}

// acknowledged records that packets up to done are acknowledged. The retransmission timeout shrinks gradually, because
// the acknowledgement may be of an early copy, until it is of a packet that was sent only once.
func (r *retry) acknowledged(now clock.Time, t *timers, done ib.PSN, outstanding bool) {
	r.retries, r.rnrRetries, r.asked = 0, 0, false
	t.stop(timerRetransmit)
	t.stop(timerNAK)
	sentOnce := !done.Before(r.once)
	if sentOnce {
		r.once, r.wait, r.atLeast = done, 0, 0
	}
	r.wait = max(r.wait/2, r.atLeast, r.shortestWait())
	if sentOnce || !r.slow() || done.Sub(r.silentAt) >= recoveredPackets {
		r.timeouts = 0
	}
	if r.recover.Before(done) {
		r.recover = done // kept up to date, so that it stays within half the circle
	}
	if outstanding {
		r.sent(now, t)
	}
}

// timedOut is called when the timer has expired. Unless the acknowledgement is only late, everything is sent again.
func (r *retry) timedOut(now clock.Time, t *timers, f flight, onlyLate bool) (v verdict) {
	if p := r.limits.silence(); p != 0 && now-r.progressAt >= p {
		return verdict{action: giveUp, status: verbs.StatusRetryExceeded}
	}
	if onlyLate {
		r.late.overdue = true
	} else {
		r.timeouts++
		r.silentAt, r.recover, r.asked = f.oldest, f.high, false
		v = r.again(f)
		v.silent, r.late.unproven = true, true
	}
	longest := longestWait
	if r.limits.timeout != 0 {
		longest = min(longest, r.limits.timeout)
	}
	r.wait = max(r.wait, min(2*r.wait, longest))
	r.waitOn(now, t)
	return v
}

// early reports whether a NAK for the oldest packet may have been sent before the copy of that packet which left last
// could arrive. Then it is decided later.
func (r *retry) early(now clock.Time, t *timers, f flight) bool {
	rtt := r.rtt.smoothed
	if rtt == 0 {
		rtt = r.atLeast
	}
	due := r.backAt + rtt
	if r.backAt == 0 || now >= due || !f.oldest.Before(r.once) || !f.oldest.Before(f.next) {
		return false
	}
	t.set(timerNAK, due)
	return true
}

// sequenceError handles a NAK for a packet that the peer is missing.
func (r *retry) sequenceError(f flight) verdict {
	if r.retries++; r.retries > r.limits.retries {
		return verdict{action: giveUp, status: verbs.StatusRetryExceeded}
	}
	return r.afterLoss(f)
}

// notReady handles an RNR NAK: the peer has no receive posted, and asks for some quiet (IBTA 9.7.5.2.8).
func (r *retry) notReady(now clock.Time, t *timers, f flight, quiet clock.Time) verdict {
	if r.limits.rnrRetries != 7 {
		if r.rnrRetries++; r.rnrRetries > r.limits.rnrRetries {
			return verdict{action: giveUp, status: verbs.StatusRNRRetryExceeded}
		}
	}
	t.stop(timerRetransmit)
	t.set(timerQuiet, now+quiet)
	return r.afterLoss(f)
}

// responseLost handles a response that is missing: an implied NAK (IBTA 9.7.5.2.1). It is asked for once.
func (r *retry) responseLost(f flight) (v verdict) {
	if !r.asked {
		v = r.afterLoss(f)
		r.asked = true
	}
	return v
}

// afterLoss goes back. The loss counts once for everything that was in flight.
func (r *retry) afterLoss(f flight) verdict {
	lost := !f.oldest.Before(r.recover)
	if lost {
		r.recover = f.high
	}
	v := r.again(f)
	v.lost = lost
	return v
}

// again goes back to the oldest packet.
func (r *retry) again(f flight) verdict {
	r.once, r.rtt.again = f.high, true
	r.late = lateness{losses: r.late.losses}
	return verdict{action: sendAgain, from: f.oldest}
}
