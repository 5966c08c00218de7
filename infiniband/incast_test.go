// SPDX-License-Identifier: Apache-2.0

package infiniband_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/ramjet-rdma/ramjet/infiniband"
	"github.com/ramjet-rdma/ramjet/internal/testkit/softfabric"
	"github.com/ramjet-rdma/ramjet/internal/testkit/testrun"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// TestIncast: 64 adapters WRITE to one as fast as they can, in real time, and another pair beside them over
// the same cable. The fabric drops nothing, and on a lane of its own the pair is not starved.
func TestIncast(t *testing.T) {
	const senders, depth = 64, 2
	each := 8 // WRITEs that the senders have done on average when the victim's are counted
	if testrun.Long() {
		each = 128
	}
	for _, sl := range []uint8{1, 0} {
		t.Run(fmt.Sprintf("SL %d", sl), func(t *testing.T) {
			f := softfabric.Start(t, "line:2,66") // 66 adapters at each of two switches, with one cable between them
			open := func(n int) *side {
				d, err := f.Open(fmt.Sprintf("host-%d", n), nil)
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { d.Close() })
				return newSide(t, d, 64<<10)
			}
			// host-1 is the target, and host-2 that of the victim.
			target, dest, victim := open(1), open(2), open(67)
			connectAt(t, victim, dest, sl)
			all := []*side{victim}
			to := []*side{dest}
			for i := range senders {
				s := open(68 + i)
				one := newSide(t, target.dev, 64<<10)
				connectAt(t, s, one, 0)
				all, to = append(all, s), append(to, one)
			}
			done := make([]int, len(all))
			posted := make([]int, len(all))
			var wcs [depth]verbs.WC
			start, sum := time.Now(), 0
			for sum < each*senders {
				if time.Since(start) > 5*time.Minute {
					t.Fatalf("after %v: the victim %d WRITEs of 64 KiB, the others %d together", time.Since(start),
						done[0], sum)
				}
				for i, s := range all {
					for posted[i]-done[i] < depth {
						s.write(t, to[i])
						posted[i]++
					}
					for _, wc := range wcs[:s.cq.Poll(wcs[:])] {
						if wc.Status != verbs.StatusSuccess {
							t.Fatalf("sender %d: %v", i, wc.Status)
						}
						done[i]++
						if i > 0 {
							sum++
						}
					}
				}
			}
			took, victims := time.Since(start), done[0]
			for i, s := range all {
				if posted[i] > done[i] {
					s.wait(t, posted[i]-done[i])
				}
			}
			t.Logf("in %v: the victim %d WRITEs of 64 KiB, the others %d each", took, victims, each)
			if sl == 1 && victims < each/2 {
				t.Errorf("the victim has done %d WRITEs, the others %d each", victims, each)
			}
			dropped(t, f)
		})
	}
}

// dropped fails the test if the fabric has dropped something.
func dropped(t *testing.T, f *infiniband.Fabric) {
	t.Helper()
	for _, n := range f.View().Nodes {
		for _, p := range n.Ports {
			if c := p.Counters; c.XmitDiscards+c.RcvErrors+c.RcvSwitchRelayErrors+c.BufferOverrun+c.VL15Dropped != 0 {
				t.Errorf("%s, port %d: %+v", n.Name, p.Number, c)
			}
		}
	}
}
