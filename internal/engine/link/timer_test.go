// SPDX-License-Identifier: Apache-2.0

package link

import (
	"testing"

	"github.com/ramjet-rdma/ramjet/internal/base/clock"
)

// TestManyTimers checks the invariant of a heap of several levels: no timer is before its parent.
func TestManyTimers(t *testing.T) {
	r := random(4)
	var h timers
	all := make([]timer, 1000)
	for range 20_000 {
		if x := &all[r.next()%1000]; r.next()%3 == 0 {
			h.stop(x)
		} else {
			h.set(x, clock.Time(1+r.next()%1_000_000))
		}
		for i, x := range h.heap {
			if x.pos != i || i > 0 && x.before(h.heap[(i-1)/4]) {
				t.Fatalf("timer %d of %d is before the one above it, or elsewhere", i, len(h.heap))
			}
		}
	}
}
