// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"testing"
	"time"

	"github.com/ramjet-rdma/ramjet/internal/ibta"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// TestReordering prints how much arrives where a share of the packets, in both directions, is
// late by up to 2 ms, 1 ms on average, on a link of 1 Gb/s with a round trip of 0.2 ms. What
// is late need not be sent again: nearly the whole link is used however many are.
func TestReordering(t *testing.T) {
	for _, op := range []verbs.SendOp{verbs.Send, verbs.Write, verbs.Read} {
		t.Run(op.String(), func(t *testing.T) {
			t.Parallel()
			for _, share := range []float64{0, 0.001, 0.01, 0.05, 0.1, 0.25, 0.5} {
				tr := Transfer{Op: op, Length: 64 << 10, Depth: 16, Window: 1 << 20, Params: Defaults, Link: Link{Rate: 1e9,
					Delay: ibta.Time(100 * time.Microsecond), Reorder: share, Jitter: ibta.Time(2 * time.Millisecond)}}
				tr.Params.RdAtomic = 16
				r, err := Goodput(1, tr, 400*time.Millisecond)
				if err != nil || r.Err != verbs.Success {
					t.Fatalf("%.1f %% late: %v, %v", 100*share, r.Err, err)
				}
				t.Logf("late %4.1f %%  %6.1f Mb/s  %6d packets  %5d times back  %4d timeouts", 100*share, r.Goodput/1e6, r.Stats.Packets, r.Rewinds, r.Timeouts)
				if r.Goodput < 0.8e9 {
					t.Errorf("%.1f %% late: %.1f Mb/s of 1000, want 800 or more", 100*share, r.Goodput/1e6)
				}
			}
		})
	}
}
