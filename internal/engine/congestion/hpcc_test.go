// SPDX-License-Identifier: Apache-2.0

package congestion

import (
	"math"
	"testing"
)

// The window follows the most loaded link of the path: its bytes in flight, relative to its bandwidth-delay product.
func TestHPCC(t *testing.T) {
	const rtt, line = 10 * us, 100e9 // which hold 125,000 bytes
	c, err := ParseSimulated("hpcc,base_rtt=10,w_ai=100")
	if err != nil {
		t.Fatal(err)
	}
	h := c.Make(Config{Packet: 1000, LineRate: line}).(*HPCC)
	now, sent := rtt, uint64(0)
	idle := Hop{At: now, Rate: line}
	step := func(bytes uint64, queue int) float64 {
		now, sent = now+rtt, sent+bytes
		idle.At = now
		h.Telemetry(now, []Hop{idle, {At: now, Sent: sent, Queue: queue, Rate: line}})
		return h.window
	}
	if w := step(0, 0); math.Abs(w-125_000) > 1 {
		t.Errorf("at first: a window of %v bytes, want what the link holds", w)
	}
	// The link is busy, and 125,000 bytes wait at both ends of the round trip: twice the bandwidth-delay product is in
	// flight.
	step(125_000, 125_000)
	before := h.reference
	if w := step(125_000, 125_000); math.Abs(w-(before*0.95/2+100)) > 1 {
		t.Errorf("with twice what the link holds: %v bytes, want %v", w, before*0.95/2+100)
	}
	// Below eta there are additive increases, and after five in a row a multiplicative one.
	h.window, h.reference, h.stage = 10_000, 10_000, 0
	for i := range 5 {
		if w := step(62_500, 0); math.Abs(w-float64(10_100+100*i)) > 1 {
			t.Errorf("increase %d: %v bytes", i, w)
		}
	}
	if w := step(62_500, 0); math.Abs(w-(10_500*0.95/0.5+100)) > 1 {
		t.Errorf("after five increases: %v bytes, want %v", w, 10_500*0.95/0.5+100)
	}
	// Records of another path, and of packets that were overtaken, change nothing.
	w := h.window
	h.Telemetry(now, []Hop{{At: now + 1, Rate: line}})
	h.Telemetry(now, []Hop{{At: now, Rate: line}})
	h.Telemetry(now, nil)
	if h.window != w {
		t.Errorf("%v bytes, want %v as before", h.window, w)
	}
	// The rate is the window in a round trip.
	h.next = now
	h.Sent(now, 1000)
	if v := h.Allows(now); math.Abs(float64(v.Next-now)-1000/h.window*1e4) > 1 || v.Window != int(math.Ceil(h.window)) {
		t.Errorf("%+v", v)
	}
}
