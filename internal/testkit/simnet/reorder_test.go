// SPDX-License-Identifier: Apache-2.0

package simnet_test

import (
	"testing"
	"time"

	"github.com/ramjet-rdma/ramjet/internal/testkit/simnet"
	"github.com/ramjet-rdma/ramjet/internal/testkit/testrun"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// TestReordering prints how much arrives where a share of the packets, in both directions, is
// late by up to 2 ms, 1 ms on average, on a link of 1 Gb/s with a round trip of 0.2 ms. Late
// packets need not be sent again: nearly the whole link is used however many are.
func TestReordering(t *testing.T) {
	shares := []float64{0.01, 0.5} // none is the first row of TestGoodput
	switch {
	case raceDetector: // more rows would tell it nothing new
		shares = []float64{0.01}
	case testrun.Long():
		shares = []float64{0, 0.001, 0.01, 0.05, 0.1, 0.25, 0.5}
	}
	for _, op := range []verbs.SendOp{verbs.OpSend, verbs.OpWrite, verbs.OpRead} {
		t.Run(op.String(), func(t *testing.T) {
			for _, share := range shares {
				tr := transfer{op: op, length: 64 << 10, depth: 16, window: 1 << 20,
					path: simnet.Path{Rate: 1e9, Delay: 100 * time.Microsecond, Reorder: share,
						Jitter: 2 * time.Millisecond}}
				r := goodput(t, tr, 400*time.Millisecond)
				t.Logf("late %4.1f %%  %6.1f Mb/s  %6d packets  %5d times back  %4d timeouts", 100*share, r.goodput/1e6,
					r.packets, r.rewinds, r.timeouts)
				if r.goodput < 0.8e9 {
					t.Errorf("%.1f %% late: %.1f Mb/s of 1000, want 800 or more", 100*share, r.goodput/1e6)
				}
			}
		})
	}
}
