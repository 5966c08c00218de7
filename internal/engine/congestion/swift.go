// SPDX-License-Identifier: Apache-2.0

package congestion

import (
	"math"
	"time"

	"github.com/ramjet-rdma/ramjet/internal/base/clock"
)

// swiftParams are named after the paper's variables, with its values where it has them.
var swiftParams = []Param{
	{"base_target", "µs", "target of a path without hops: that of hosts with sockets, where the paper's network cards have 25", 200, 1, 1e6},
	{"hops", "hops", "switches on the path", 0, 0, 64},
	{"hop_scale", "µs", "target of a hop", 1, 0, 1e4},
	{"fs_range", "µs", "by how much the target is raised for many flows", 100, 0, 1e6},
	{"fs_min_cwnd", "packets", "window at which it is raised by all of that", 0.1, 0.001, 1e6},
	{"fs_max_cwnd", "packets", "window from which on it is not raised", 100, 0.001, 1e6},
	{"ai", "packets", "additive increase in a round trip", 1, 0.001, 1000},
	{"beta", "", "multiplicative decrease for a delay beyond the target", 0.8, 0.01, 1},
	{"max_mdf", "", "the largest decrease in a round trip", 0.5, 0.01, 0.99},
	{"min_cwnd", "packets", "smallest window", 0.1, 0.0001, 1},
	{"max_cwnd", "packets", "largest window; 0: four times what the peer's socket buffer holds", 0, 0, 1e6},
}

// Swift controls by the round trip after Swift (Kumar et al., Swift: Delay is Simple and Effective for Congestion
// Control in the Datacenter, SIGCOMM 2020, section 3). It has one delay and one window, as there is no clock of a
// network card that would tell the host's delay from the fabric's.
type Swift struct {
	base, hops       clock.Time
	fsRange          float64 // ns
	fsAlpha, fsBeta  float64 // of the target for many flows
	ai, beta, maxMDF float64
	minCwnd, maxCwnd float64
	packet           int

	cwnd      float64    // packets
	delay     clock.Time // the round trip that was measured last; zero: none
	target    clock.Time
	decreased clock.Time // when the window shrank last
	timeouts  int        // in a row
	next      clock.Time // of the next send, while the window is below one packet
}

// resetAfter is how many timeouts in a row close the window (RETX_RESET_THRESHOLD).
const resetAfter = 5

func newSwift(c Config, v *Values) Controller {
	s := &Swift{
		base: microseconds(v.Get("base_target")), hops: microseconds(v.Get("hops") * v.Get("hop_scale")),
		fsRange: v.Get("fs_range") * 1000, ai: v.Get("ai"), beta: v.Get("beta"), maxMDF: v.Get("max_mdf"),
		minCwnd: v.Get("min_cwnd"), maxCwnd: v.Get("max_cwnd"), packet: max(c.Packet, 1),
	}
	if low, high := 1/math.Sqrt(v.Get("fs_max_cwnd")), 1/math.Sqrt(v.Get("fs_min_cwnd")); high > low {
		s.fsAlpha = s.fsRange / (high - low)
		s.fsBeta = -s.fsAlpha * low
	}
	if s.maxCwnd == 0 {
		s.maxCwnd = float64(4*max(c.Limit, MinWindow)) / float64(s.packet)
	}
	s.maxCwnd = max(s.maxCwnd, s.minCwnd)
	s.cwnd = min(s.maxCwnd, max(MinWindow/float64(s.packet), 1))
	return s
}

// targetDelay is the round trip that is aimed at: more for each hop, and for small windows, which many flows at one
// link have (section 3.5). Queues of n flows grow with the root of n.
func (s *Swift) targetDelay() clock.Time {
	flows := min(max(s.fsAlpha/math.Sqrt(s.cwnd)+s.fsBeta, 0), s.fsRange)
	return s.base + s.hops + clock.Time(flows)
}

// RoundTrip shrinks the window if the delay is beyond its target, once in a round trip.
func (s *Swift) RoundTrip(now, took clock.Time) {
	s.delay, s.timeouts = took, 0
	if s.target = s.targetDelay(); took > s.target {
		s.decrease(now, s.beta*float64(took-s.target)/float64(took))
	}
}

// Arrived opens the window while the delay is within its target: by ai packets in a round trip.
func (s *Swift) Arrived(_ clock.Time, bytes int) {
	if s.delay == 0 || s.delay > s.target {
		return
	}
	grown := s.ai * float64(bytes) / float64(s.packet)
	if s.cwnd >= 1 {
		grown /= s.cwnd
	}
	s.setWindow(s.cwnd + grown)
}

// decrease shrinks the window by a part of it, once in a round trip.
func (s *Swift) decrease(now clock.Time, part float64) {
	if s.decreased != 0 && now-s.decreased < s.delay {
		return
	}
	s.decreased = now
	s.setWindow(s.cwnd * max(1-part, 1-s.maxMDF))
}

func (s *Swift) setWindow(packets float64) { s.cwnd = min(max(packets, s.minCwnd), s.maxCwnd) }

// Lost shrinks the window as far as one round trip can.
func (s *Swift) Lost(now clock.Time) { s.decrease(now, 1) }

// Silent does too, and closes the window after many timeouts in a row.
func (s *Swift) Silent(now clock.Time) {
	if s.timeouts++; s.timeouts >= resetAfter {
		s.setWindow(s.minCwnd)
		return
	}
	s.decrease(now, 1)
}

// Sent spaces packets out while the window is below one packet. A round trip beyond the target counts as the target:
// else packets would be seconds apart after the host had no processor for a while. A packet that is late by less than
// the distance does not make the packets behind it late.
func (s *Swift) Sent(now clock.Time, bytes int) {
	if s.cwnd < 1 {
		packets := float64(bytes) / float64(s.packet)
		apart := clock.Time(packets * float64(min(s.delay, s.target)) / s.cwnd)
		s.next = max(s.next, now-apart) + apart
	}
}

// Allows returns the window, or the time of the next packet.
func (s *Swift) Allows(clock.Time) Verdict {
	if s.cwnd < 1 {
		return Verdict{Window: s.packet, Burst: s.packet, Next: s.next}
	}
	return Verdict{Window: int(s.cwnd * float64(s.packet)), Burst: AnyBurst}
}

// State returns the target, and the rate while packets are spaced out.
func (s *Swift) State() State {
	st := State{Target: s.target}
	if s.cwnd < 1 && s.delay > 0 {
		st.Rate = s.cwnd * float64(8*s.packet) / time.Duration(min(s.delay, s.target)).Seconds()
	}
	return st
}

// Swift takes no notice of marks.

func (s *Swift) Notified(clock.Time) {}
func (s *Swift) Marked(clock.Time)   {}
