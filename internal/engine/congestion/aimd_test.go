// SPDX-License-Identifier: Apache-2.0

package congestion

import (
	"testing"
	"time"

	"github.com/ramjet-rdma/ramjet/internal/base/clock"
)

// AIMD is the controller that docs/congestion.md adds step by step: a window that grows by one packet in a round trip,
// and halves with a notification or a loss.
type AIMD struct {
	packet, window int
	rtt, halved    clock.Time
}

var aimd = &Kind{
	Name: "aimd", Text: "additive increase, multiplicative decrease", PerQP: true, ECT: true,
	Params: []Param{{"initial_window", "packets", "at first", 16, 1, 1000}},
	New: func(c Config, v *Values) Controller {
		return &AIMD{packet: c.Packet, window: c.Packet * int(v.Get("initial_window"))}
	},
}

func (a *AIMD) Arrived(_ clock.Time, bytes int)        { a.window += a.packet * bytes / a.window }
func (a *AIMD) RoundTrip(_ clock.Time, rtt clock.Time) { a.rtt = rtt }
func (a *AIMD) Notified(now clock.Time) {
	if now-a.halved > a.rtt {
		a.window, a.halved = max(a.window/2, a.packet), now
	}
}
func (a *AIMD) Lost(now clock.Time)       { a.Notified(now) }
func (a *AIMD) Silent(now clock.Time)     { a.Notified(now) }
func (a *AIMD) Sent(clock.Time, int)      {}
func (a *AIMD) Marked(clock.Time)         {}
func (a *AIMD) Allows(clock.Time) Verdict { return Verdict{Window: a.window, Burst: AnyBurst} }
func (a *AIMD) State() State              { return State{} }

// A controller is a type and a row of the table.
func TestAddedController(t *testing.T) {
	defer func(kinds []*Kind) { Kinds = kinds }(Kinds)
	Kinds = append(Kinds, aimd)
	b := newBottleneck(t, 2, "aimd", 1)
	b.run(20*time.Millisecond, 50*time.Millisecond)
	busy, longest, least, most := b.figures()
	t.Logf("2 senders with aimd: link %.3f, queue up to %d KB, shares %.2f to %.2f", busy, longest/1000, least, most)
	if busy < 0.9 || longest > 800_000 || least < 0.7 {
		t.Errorf("the link was busy %.3f of the time, the queue had up to %d bytes, the least share was %.2f of fair",
			busy, longest, least)
	}
}
