// SPDX-License-Identifier: Apache-2.0

package metric

import (
	"testing"
	"time"
)

// A sample is in the first bucket whose bound is not below it.
func TestHistogram(t *testing.T) {
	if Bound(0) != 100*time.Nanosecond || Bound(5) != 5*time.Microsecond || Bound(Buckets-2) != 10*time.Second {
		t.Errorf("%v, %v, %v", Bound(0), Bound(5), Bound(Buckets-2))
	}
	for want := range Buckets {
		below := time.Duration(-1)
		if want > 0 {
			below = Bound(want - 1)
		}
		for _, d := range []time.Duration{below + 1, Bound(want)} {
			var h Histogram
			h.Add(d)
			if h.Buckets[want] != 1 || h.Count != 1 || h.Sum != d {
				t.Errorf("%v: %+v, want bucket %d", d, h, want)
			}
		}
	}
	var h Histogram
	h.Add(-1) // a clock that went back
	if h.Buckets[0] != 1 || h.Sum != 0 {
		t.Errorf("%+v", h)
	}
}
