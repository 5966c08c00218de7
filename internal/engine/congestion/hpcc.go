// SPDX-License-Identifier: Apache-2.0

package congestion

import (
	"math"
	"slices"

	"github.com/ramjet-rdma/ramjet/internal/base/clock"
)

// hpccParams are named after the paper's variables, with its values.
var hpccParams = []Param{
	{"base_rtt", "µs", "round trip without queues, T: longer than that of any two hosts", 13, 0.1, 1e6},
	{"eta", "", "share of a link that is aimed at", 0.95, 0.1, 1},
	{"max_stage", "increases", "additive increases in a row before a multiplicative one", 5, 0, 1000},
	{"w_ai", "bytes", "additive increase in a round trip, W_AI", 80, 1, 1e6},
}

// Hop is the record that a switch writes into a packet that leaves it: in-band network telemetry (INT).
type Hop struct {
	At    clock.Time
	Sent  uint64  // bytes that the link has sent
	Queue int     // bytes
	Rate  float64 // of the link, bits per second
}

// Telemeter is a controller that gets the records that switches on the way wrote into a packet, when that is
// acknowledged. It does not retain hops.
type Telemeter interface {
	Telemetry(now clock.Time, hops []Hop)
}

// HPCC is the sender of HPCC (Li et al., High Precision Congestion Control, SIGCOMM 2019, algorithm 1): a window with
// which each link of the path has at most the share eta of its bandwidth-delay product in flight, and a rate of one
// window in a round trip.
type HPCC struct {
	baseRTT  float64 // seconds
	eta      float64
	maxStage int
	wAI      float64
	most     float64 // bytes: the window that fills the host's link
	packet   int

	window, reference float64 // W and W_c, bytes
	u                 float64 // in flight, as a share of the most loaded link's bandwidth-delay product
	stage             int
	hops              []Hop // of the last acknowledgement
	rtt, updated      clock.Time
	next              clock.Time // of the next send
}

func newHPCC(c Config, v *Values) Controller {
	line := c.LineRate / 8
	if line == 0 {
		line = perSecond(100e3)
	}
	h := &HPCC{baseRTT: v.Get("base_rtt") / 1e6, eta: v.Get("eta"), maxStage: int(v.Get("max_stage")),
		wAI: v.Get("w_ai"), packet: c.Packet, u: 1}
	h.most = line * h.baseRTT
	h.window, h.reference = h.most, h.most
	return h
}

// Telemetry estimates the bytes in flight, and sets the window. The reference window changes once in a round trip, so
// that acknowledgements of one round trip do not lead to the same reaction twice.
func (h *HPCC) Telemetry(now clock.Time, hops []Hop) {
	measured := h.measure(hops)
	h.hops = append(h.hops[:0], hops...)
	if !measured {
		return
	}
	stage := h.stage
	if h.u >= h.eta || h.stage >= h.maxStage {
		h.window, stage = h.reference/(h.u/h.eta)+h.wAI, 0
	} else {
		h.window, stage = h.reference+h.wAI, stage+1
	}
	h.window = min(max(h.window, h.wAI), h.most)
	if now-h.updated >= h.rtt {
		h.reference, h.stage, h.updated = h.window, stage, now
	}
}

// measure averages the bytes in flight on the most loaded link over a round trip (MeasureInflight). It reports whether
// hops can be compared with the last ones.
func (h *HPCC) measure(hops []Hop) bool {
	if len(hops) == 0 || len(hops) != len(h.hops) ||
		slices.ContainsFunc(hops, func(x Hop) bool { return x.Rate <= 0 }) {
		return false
	}
	u, took := 0.0, 0.0
	for i, x := range hops {
		last, line := h.hops[i], x.Rate/8
		since := float64(x.At-last.At) / 1e9
		if since <= 0 || x.Sent < last.Sent { // overtaken, or by another path
			return false
		}
		if inFlight := float64(min(x.Queue, last.Queue))/(line*h.baseRTT) +
			float64(x.Sent-last.Sent)/since/line; inFlight > u {
			u, took = inFlight, since
		}
	}
	weight := min(took/h.baseRTT, 1)
	h.u = max((1-weight)*h.u+weight*u, 1e-6)
	return true
}

// Sent sets the time of the next send, by the rate that is the window in a round trip.
func (h *HPCC) Sent(now clock.Time, bytes int) {
	h.next = max(h.next, now-maxLag) + clock.Time(float64(bytes)/h.window*h.baseRTT*1e9)
}

// Allows returns the window, and the time of the next send.
func (h *HPCC) Allows(clock.Time) Verdict {
	burst := int(h.window / h.baseRTT * burstTime.Seconds())
	return Verdict{Window: int(math.Ceil(h.window)), Burst: min(max(burst, h.packet), maxBurst), Next: h.next}
}

// State returns the rate.
func (h *HPCC) State() State { return State{Rate: 8 * h.window / h.baseRTT} }

// RoundTrip notes how long one takes now.
func (h *HPCC) RoundTrip(_, took clock.Time) { h.rtt = took }

// Nothing else changes the window.

func (h *HPCC) Arrived(clock.Time, int) {}
func (h *HPCC) Lost(clock.Time)         {}
func (h *HPCC) Silent(clock.Time)       {}
func (h *HPCC) Notified(clock.Time)     {}
func (h *HPCC) Marked(clock.Time)       {}
