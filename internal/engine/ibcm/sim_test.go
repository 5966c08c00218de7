// SPDX-License-Identifier: Apache-2.0

package ibcm

import (
	"fmt"
	"testing"
	"time"

	"github.com/ramjet-rdma/ramjet/internal/testkit/testrun"
)

// TestWorld: over any network every connection ends, on both sides, by events
// that the model allows. Polite programs over a network that is bad but not
// hopeless get every connection established on both sides.
func TestWorld(t *testing.T) {
	seeds := uint64(4)
	if testrun.Long() {
		seeds = 40
	}
	for _, c := range []struct {
		loss, repeat, mutate float64
		delay                time.Duration
		rude                 bool
	}{
		{0, 0, 0, time.Millisecond, false},
		{0.05, 0.05, 0, 5 * time.Millisecond, false},
		{0.2, 0.2, 0, 3 * time.Second, false}, // repetitions overtake
		{0, 0, 0, time.Millisecond, true},
		{0.1, 0.1, 0, 5 * time.Millisecond, true},
		{0.4, 0.3, 0, 3 * time.Second, true},
		{0.9, 0.3, 0, time.Second, true},
		{1, 0, 0, time.Second, true},
		{0.1, 0.1, 0.3, time.Second, true},
	} {
		for seed := range seeds {
			t.Run(fmt.Sprintf("loss=%v,delay=%v,rude=%v,mutate=%v/%d", c.loss, c.delay, c.rude, c.mutate, seed),
				func(t *testing.T) {
					w := newWorld(t, seed)
					w.loss, w.repeat, w.delay, w.rude, w.mutate = c.loss, c.repeat, c.delay, c.rude, c.mutate
					const each = 20
					for range each {
						for _, h := range w.hosts {
							w.in(w.upTo(10*time.Second), h.connect)
							w.in(w.upTo(10*time.Second), h.resolve)
						}
					}
					w.run()
					w.finish()
					a, b := w.hosts[0].ended, w.hosts[1].ended
					if !c.rude && (a["up"] != 2*each || b["up"] != 2*each || a["service"] != each ||
						b["service"] != each) {
						w.fail("of %d connections and %d resolutions: A %v, B %v", 2*each, each, a, b)
					}
					t.Log(a, b)
				})
		}
	}
}
