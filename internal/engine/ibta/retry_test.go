// SPDX-License-Identifier: Apache-2.0

package ibta_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/ramjet-rdma/ramjet/internal/base/clock"
	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/wire/ib"
)

// A peer that is silent is given up after one timeout and RetryCount more of them. A timeout
// takes 4.096 µs * 2^Timeout (IBTA 9.9.2.1.1), and up to four times as long (9.7.6.1.3) as
// long as that is no more than 0.27 s.
func TestGivenUpAfter(t *testing.T) {
	for _, c := range []struct {
		timeout, retries uint8
		want             time.Duration
	}{
		{1, 7, 262144},
		{8, 7, 33554432},
		{8, 1, 8388608},
		{14, 0, 268435456},
		{14, 7, 2147483648},
		{15, 7, 2147483648},
		{16, 7, 2147483648}, // from here on the timeout as it is
		{17, 7, 4294967296},
		{18, 7, 8589934592},
		{18, 1, 2147483648},
		{20, 7, 34359738368},
		{31, 7, 8 * 4096 << 31},
	} {
		t.Run(fmt.Sprintf("%d,%d", c.timeout, c.retries), func(t *testing.T) {
			s := start(t, verbs.RC, func(o *options) { o.attr.Timeout, o.attr.RetryCount = c.timeout, c.retries })
			s.pass(time.Second)
			s.post(s.send(1, 1))
			s.pass(c.want - 1)
			if len(s.wcs) != 0 {
				t.Fatal("it failed too early")
			}
			s.pass(1)
			if c.timeout >= 8 && len(s.out) < 1+int(c.retries) {
				t.Errorf("sent %d times, want once a timeout at least", len(s.out))
			}
			s.out = nil
			s.wantWC(1, verbs.StatusRetryExceeded)
			s.idle()
		})
	}
}

// answerAfter lets time pass at a peer that answers requests for acknowledgements after a round
// trip. It returns how often packets were sent again.
func (s *script) answerAfter(rtt, d time.Duration) (again int) {
	s.Helper()
	type arrival struct {
		at  clock.Time
		psn ib.PSN
	}
	var coming []arrival
	beyond := sendPSN
	for end := s.now + clock.Time(d); s.now < end; {
		for _, p := range s.out {
			if p.PSN.Before(beyond) {
				again++
			} else {
				beyond = p.PSN.Next()
			}
			if p.AckReq {
				coming = append(coming, arrival{s.now + clock.Time(rtt), p.PSN})
			}
		}
		s.out = nil
		next := end
		if len(coming) > 0 {
			next = min(next, coming[0].at)
		}
		if due := s.q.Deadline(); due != 0 {
			next = min(next, due)
		}
		s.now = max(s.now, next)
		if due := s.q.Deadline(); due != 0 && due <= s.now {
			s.q.HandleTimeout(s.now)
			s.drain()
		}
		for len(coming) > 0 && coming[0].at <= s.now {
			psn := coming[0].psn
			coming = coming[1:]
			s.ack(psn)
		}
		for range s.wcs {
			s.post(s.send(1, 1))
		}
		s.wcs = nil
	}
	return again
}

// The retransmission timeout becomes that of the path, however much longer that is than the first
// one, and than the queue pair's timeout: it stays backed off until a packet that was sent only
// once is acknowledged (RFC 6298, 5.7).
func TestLongRoundTrip(t *testing.T) {
	for _, rtt := range []time.Duration{time.Millisecond, 10 * time.Millisecond, 40 * time.Millisecond,
		100 * time.Millisecond, 600 * time.Millisecond} {
		t.Run(rtt.String(), func(t *testing.T) {
			s := start(t, verbs.RC, func(o *options) { o.attr.RetryCount = 7 })
			s.post(s.send(1, 1))
			first := s.answerAfter(rtt, 5*rtt)
			if rtt < 8*time.Millisecond && first != 0 || first > 24 {
				t.Errorf("%d packets were sent again at first", first)
			}
			if n := s.answerAfter(rtt, 50*rtt); n != 0 {
				t.Errorf("%d packets were sent again without a loss", n)
			}
		})
	}
}

// The round trip and its deviation are estimated as RFC 6298 section 2 has it: an eighth and a quarter of each
// sample, after the first one, which counts whole and half.
func TestRoundTripEstimate(t *testing.T) {
	s := start(t, verbs.RC)
	var want verbs.QPStats
	for i, took := range []time.Duration{4000, 8000, 2000, 2000, 100_000} {
		s.post(s.wr(verbs.OpWrite, uint64(i), 1))
		s.now += clock.Time(took)
		s.ack(sendPSN.Add(i))
		if off := took - want.RTT; i == 0 {
			want.RTT, want.RTTVar = took, took/2
		} else {
			want.RTT += off / 8
			want.RTTVar += (max(off, -off) - want.RTTVar) / 4
		}
		var got verbs.QPStats
		if s.q.Stats(&got); got.RTT != want.RTT || got.RTTVar != want.RTTVar {
			t.Fatalf("after %d samples the round trip is %v, its deviation %v, want %v and %v", i+1, got.RTT,
				got.RTTVar, want.RTT, want.RTTVar)
		}
	}
}
