// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"testing"
	"time"

	"github.com/ramjet-rdma/ramjet/internal/ibta"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// TestGoodputTable prints how much arrives under loss, on a link of 1 Gb/s with 100 µs of
// delay each way: go test -run TestGoodputTable -v. Nothing may fail, and more loss does
// not help.
func TestGoodputTable(t *testing.T) {
	losses := []float64{0, 0.001, 0.005, 0.01, 0.02, 0.05}
	for _, op := range []verbs.SendOp{verbs.Send, verbs.Write, verbs.Read} {
		t.Run(op.String(), func(t *testing.T) {
			t.Parallel()
			before := 0.0
			for _, loss := range losses {
				tr := Transfer{Op: op, Length: 64 << 10, Depth: 16, Window: 1 << 20, Params: Defaults,
					Link: Link{Rate: 1e9, Delay: ibta.Time(100 * time.Microsecond), Loss: loss}}
				r, err := Goodput(1, tr, 400*time.Millisecond)
				if err != nil || r.Err != verbs.Success || r.Messages == 0 {
					t.Fatalf("loss %.1f %%: %d messages, %v, %v", 100*loss, r.Messages, r.Err, err)
				}
				t.Logf("loss %4.1f %%  %6.1f Mb/s  %6d packets  %5d times back  %4d timeouts", 100*loss, r.Goodput/1e6, r.Stats.Packets, r.Rewinds, r.Timeouts)
				if loss == 0 && (r.Goodput < 0.85e9 || r.Rewinds != 0) {
					t.Errorf("%.1f Mb/s and %d times back without loss", r.Goodput/1e6, r.Rewinds)
				}
				if before > 0 && r.Goodput > 1.1*before {
					t.Errorf("loss %.1f %%: more than with less loss", 100*loss)
				}
				before = r.Goodput
			}
		})
	}
}

// TestOverrun lets a receiver's buffer be a tenth of what the window believes: it finds a window
// that fits, and a good part of what the receiver can handle arrives.
func TestOverrun(t *testing.T) {
	for _, op := range []verbs.SendOp{verbs.Write, verbs.Read} {
		tr := Transfer{Op: op, Length: 64 << 10, Depth: 16, Window: 2 << 20, Params: Defaults,
			Link: Link{Rate: 10e9, Delay: ibta.Time(20 * time.Microsecond), Buffer: 208 << 10, PerPacket: 2000}}
		r, err := Goodput(1, tr, 300*time.Millisecond)
		if err != nil || r.Err != verbs.Success || r.Stats.Overrun == 0 {
			t.Fatalf("%v: %+v, %v", op, r, err)
		}
		t.Logf("%v: %.1f Mb/s, %d packets dropped of %d, %d times back, %d timeouts", op, r.Goodput/1e6, r.Stats.Overrun, r.Stats.Packets, r.Rewinds, r.Timeouts)
		if most := 1024 * 8 / 2e-6; r.Goodput < most/8 {
			t.Errorf("%v: %.1f Mb/s, the receiver handles %.1f", op, r.Goodput/1e6, most/1e6)
		}
	}
}
