// SPDX-License-Identifier: Apache-2.0

package congestion

import (
	"math"
	"testing"
	"time"

	"github.com/ramjet-rdma/ramjet/internal/base/clock"
)

// The target delay by hops and by the window, and the window after each event, by the algorithms of the paper.
func TestSwiftEquations(t *testing.T) {
	s := controller(t, "swift,base_target=25,hops=3,hop_scale=2,fs_range=100,fs_min_cwnd=0.1,fs_max_cwnd=100,min_cwnd=0.01,max_cwnd=1000", 0).(*Swift)
	target := func(cwnd float64) float64 {
		alpha := 100_000 / (1/math.Sqrt(0.1) - 1/math.Sqrt(100))
		return 25_000 + 3*2_000 + min(max(alpha/math.Sqrt(cwnd)-alpha/math.Sqrt(100), 0), 100_000)
	}
	for _, cwnd := range []float64{0.01, 0.1, 0.5, 1, 10, 99, 100, 500} {
		s.cwnd = cwnd
		if got := float64(s.targetDelay()); math.Abs(got-target(cwnd)) > 1 {
			t.Errorf("target of a window of %v: %v ns, want %v", cwnd, got, target(cwnd))
		}
	}
	now := clock.Time(time.Second)
	wants := func(what string, cwnd float64) {
		t.Helper()
		if !near(s.cwnd, cwnd) {
			t.Fatalf("%s: the window is %v packets, want %v", what, s.cwnd, cwnd)
		}
	}
	s.cwnd = 200
	s.RoundTrip(now, 30*us)
	s.Arrived(now, 1024)
	wants("one packet within the target", 200+1./200)
	s.cwnd = 200
	delay := 40 * us
	s.RoundTrip(now, delay)
	want := 200 * (1 - 0.8*float64(delay-31*us)/float64(delay))
	wants("a delay beyond it", want)
	s.Arrived(now, 1024)
	s.RoundTrip(now+delay-1, delay)
	wants("in the same round trip", want)
	now += 4000 * us
	s.RoundTrip(now, 4000*us)
	want /= 2
	wants("a long delay", want)
	now += 8000 * us
	s.Lost(now)
	wants("a loss", want/2)
	now += 8000 * us
	s.Silent(now)
	wants("silence", want/4)
	for range 4 {
		s.Silent(now)
	}
	wants("five silences", 0.01)
	s.RoundTrip(now, 100*us)
	s.Arrived(now, 1024)
	wants("growing below one packet", 1.01)
}

// A window below one packet is a pace.
func TestSwiftPaces(t *testing.T) {
	s := controller(t, "swift,base_target=1000", 0).(*Swift)
	now := clock.Time(time.Second)
	s.RoundTrip(now, 100*us)
	s.cwnd = 0.25
	s.next = now
	s.Sent(now, 1024)
	if v := s.Allows(now); v != (Verdict{Window: 1024, Burst: 1024, Next: now + 400*us}) {
		t.Errorf("a quarter of a packet in a round trip of 100 µs: %+v", v)
	}
	s.RoundTrip(now, 50_000*us) // a host without a processor
	s.cwnd, s.next = 0.25, now
	s.Sent(now, 1024)
	if v := s.Allows(now); v.Next != now+4*s.target {
		t.Errorf("after a round trip of 50 ms the next packet leaves after %v, and the target is %v",
			time.Duration(v.Next-now), time.Duration(s.target))
	}
	s.RoundTrip(now, 100*us)
	s.cwnd, s.next = 0.25, now
	s.Sent(now+150*us, 1024)
	if v := s.Allows(now); v.Next != now+400*us {
		t.Errorf("a packet left 150 µs late, and the one behind it leaves %v after its time",
			time.Duration(v.Next-now-400*us))
	}
	s.cwnd = 10
	if v := s.Allows(now); v != (Verdict{Window: 10240, Burst: AnyBurst}) {
		t.Errorf("ten packets: %+v", v)
	}
}
