// SPDX-License-Identifier: Apache-2.0

package ibta

import (
	"testing"
	"time"

	"github.com/ramjet-rdma/ramjet/internal/base/clock"
	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/wire/ib"
)

const ms = clock.Time(time.Millisecond)

// inFlight is ten packets from PSN 100 on.
var inFlight = flight{oldest: 100, high: 110, outstanding: true}

// newRetry returns a retry that has sent these packets at a time.
func newRetry(l retryLimits, now clock.Time) (r *retry, t *timers) {
	r, t = &retry{limits: l}, &timers{}
	r.start(100)
	r.sent(now, t)
	return r, t
}

// Silence is answered with the oldest packet, later and later, until the peer is given up.
func TestRetrySilence(t *testing.T) {
	r, timers := newRetry(retryLimits{timeout: 4096 << 14, retries: 1}, 0)
	var times []clock.Time
	for {
		due := timers.next()
		if timers.expired(timerRetransmit, due) != due {
			t.Fatalf("the next timer, at %d, is not the retransmission timer", due)
		}
		v := r.timedOut(due, timers, inFlight, false)
		if v.action == giveUp {
			if want := 2 * 4 * clock.Time(4096<<14); v.status != verbs.StatusRetryExceeded || due != want ||
				timers.next() != 0 {
				t.Errorf("given up after %v as %v, want after %v", time.Duration(due), v.status, time.Duration(want))
			}
			break
		}
		if want := (verdict{action: sendAgain, from: 100, silent: true}); v != want {
			t.Fatalf("the verdict on silence is %+v, want %+v", v, want)
		}
		times = append(times, due)
	}
	for i, want := range []clock.Time{8 * ms, 24 * ms, 56 * ms} {
		if times[i] != want {
			t.Errorf("timeout %d at %v, want %v", i, time.Duration(times[i]), time.Duration(want))
		}
	}
	if !r.slow() || r.enough(100, 100) || !r.enough(101, 100) {
		t.Error("a silent peer gets more than one packet")
	}
}

// An acknowledgement that is only late is waited for, and nothing is sent again.
func TestRetryLate(t *testing.T) {
	r, timers := newRetry(retryLimits{timeout: 4096 << 14, retries: 7}, 0)
	due := timers.expired(timerRetransmit, 8*ms)
	if v := r.timedOut(due, timers, inFlight, true); v.action != nothing || timers.next() != 24*ms || !r.late.overdue ||
		r.slow() {
		t.Errorf("the verdict is %+v, the next timer at %v", v, time.Duration(timers.next()))
	}
}

// A loss goes back to the missing packet, and counts once for all packets in flight.
func TestRetrySequenceError(t *testing.T) {
	r, _ := newRetry(retryLimits{retries: 2}, 0)
	for i, want := range []verdict{
		{action: sendAgain, from: 100, lost: true},
		{action: sendAgain, from: 100},
		{action: giveUp, status: verbs.StatusRetryExceeded},
	} {
		if got := r.sequenceError(inFlight); got != want {
			t.Errorf("NAK %d: %+v, want %+v", i, got, want)
		}
	}
	var timers timers
	r.acknowledged(1, &timers, 109, false)
	if got := r.sequenceError(flight{oldest: 110, high: 120, outstanding: true}); !got.lost || got.from != 110 {
		t.Errorf("the next loss: %+v", got)
	}
}

// A peer that is not ready is left alone for as long as it asks, so often as the attributes say.
func TestRetryNotReady(t *testing.T) {
	for _, limit := range []int{0, 2, 7} {
		r, timers := newRetry(retryLimits{rnrRetries: uint8(limit)}, 0)
		for i := range 10 {
			v := r.notReady(ms, timers, inFlight, 5*ms)
			if limit != 7 && i >= limit {
				if v.action != giveUp || v.status != verbs.StatusRNRRetryExceeded {
					t.Errorf("rnr_retry %d: the verdict on RNR NAK %d is %+v", limit, i, v)
				}
				break
			}
			if v.action != sendAgain || v.from != 100 || timers[timerQuiet] != 6*ms || timers.running(timerRetransmit) {
				t.Errorf("rnr_retry %d: the verdict on RNR NAK %d is %+v, timers %v", limit, i, v, timers)
			}
		}
	}
}

// A response that is missing is asked for once, until something is acknowledged.
func TestRetryResponseLost(t *testing.T) {
	r, timers := newRetry(retryLimits{}, 0)
	if v := r.responseLost(inFlight); v.action != sendAgain || !v.lost {
		t.Errorf("the first time: %+v", v)
	}
	if v := r.responseLost(inFlight); v.action != nothing {
		t.Errorf("the second time: %+v", v)
	}
	r.acknowledged(1, timers, 100, true)
	if v := r.responseLost(flight{oldest: 101, high: 110, outstanding: true}); v.action != sendAgain || v.lost {
		t.Errorf("of the same loss, after an acknowledgement: %+v", v)
	}
}

// The timer follows the round trip, and stays backed off until something that was sent only once is acknowledged.
func TestRetryRoundTrip(t *testing.T) {
	r, timers := newRetry(retryLimits{timeout: 4096 << 14, retries: 7}, 0)
	r.rtt.sent(ms, 100)
	r.timedOut(timers.expired(timerRetransmit, 8*ms), timers, inFlight, false)
	if took, sample := r.measure(41*ms, 100); sample || took != 40*ms {
		t.Errorf("a packet that was sent twice is a sample: %v", time.Duration(took))
	}
	r.acknowledged(41*ms, timers, 100, true)
	if got := timers.next() - 41*ms; got != 50*ms {
		t.Errorf("the timeout is %v, want a quarter more than 40 ms", time.Duration(got))
	}
	r.rtt.sent(50*ms, 110)
	if took, sample := r.measure(90*ms, 110); !sample || took != 40*ms {
		t.Errorf("no sample, %v", time.Duration(took))
	}
	r.acknowledged(90*ms, timers, ib.PSN(110), true)
	if got := timers.next() - 90*ms; got != 120*ms {
		t.Errorf("the timeout is %v, want that of RFC 6298: 40 ms and four times 20 ms", time.Duration(got))
	}
}

// A NAK for a packet that was sent again less than a round trip ago is decided when that has passed.
func TestRetryEarly(t *testing.T) {
	r, timers := newRetry(retryLimits{timeout: 4096 << 14, retries: 7}, 0)
	f := flight{oldest: 100, high: 110, outstanding: true, next: 110}
	if r.early(5*ms, timers, f) {
		t.Error("the first NAK is early")
	}
	r.rtt.smoothed, r.backAt = 10*ms, 5*ms
	r.afterLoss(f)
	for _, c := range []struct {
		name string
		now  clock.Time
		f    flight
		want bool
	}{
		{"the copy is on its way", 14 * ms, f, true},
		{"a round trip has passed", 15 * ms, f, false},
		{"there is no copy yet", 14 * ms, flight{oldest: 100, high: 110, outstanding: true, next: 100}, false},
		{"it was sent only once", 14 * ms, flight{oldest: 110, high: 112, outstanding: true, next: 112}, false},
	} {
		timers.stop(timerNAK)
		if r.early(c.now, timers, c.f) != c.want || c.want != (timers[timerNAK] == 15*ms) {
			t.Errorf("%s: want %v; timers %v", c.name, c.want, timers)
		}
	}
}

// The next timer is the earliest that runs; one that has expired does not run.
func TestTimers(t *testing.T) {
	var s timers
	if s.next() != 0 {
		t.Error("a timer runs from the beginning")
	}
	for w := range numTimers {
		s.set(w, clock.Time(10+w))
	}
	for w := range numTimers {
		at := clock.Time(10 + w)
		if s.next() != at || s.expired(w, at-1) != 0 || s.expired(w, at+5) != at || s.running(w) {
			t.Errorf("timer %d: %v", w, s)
		}
	}
}
