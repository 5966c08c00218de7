// SPDX-License-Identifier: Apache-2.0

package ibta

import (
	"github.com/ramjet-rdma/ramjet/internal/base/clock"
	"github.com/ramjet-rdma/ramjet/internal/engine/congestion"
)

// regulator is a congestion control, its verdict, and the bytes of the present send.
type regulator struct {
	control congestion.Controller
	allows  congestion.Verdict // as it was returned last
	burst   int                // bytes of the present send
}

func newRegulator(control congestion.Controller) regulator {
	return regulator{control: control, allows: control.Allows(0)}
}

// ask asks for a new verdict.
func (g *regulator) ask(now clock.Time) {
	if g.allows = g.control.Allows(now); g.allows.Next <= now {
		g.allows.Next = 0
	}
}

// early reports whether it is too early for n more bytes: for the next send, or because they are too many for the
// present one.
func (g *regulator) early(now clock.Time, n int) bool {
	return now < g.allows.Next || g.burst > 0 && g.burst+n > g.allows.Burst
}

// holds reports whether n more bytes fit the window, where so many are in flight.
func (g *regulator) holds(inflight, n int) bool {
	return inflight == 0 || inflight+n <= g.allows.Window
}

// sent ends a send.
func (g *regulator) sent(now clock.Time) {
	g.control.Sent(now, g.burst)
	g.burst = 0
	g.ask(now)
}
