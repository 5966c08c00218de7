// SPDX-License-Identifier: Apache-2.0

package verbs

import (
	"errors"
	"testing"
	"time"
)

// A sample is in the first bucket whose bound is not below it.
func TestLatencyHistogram(t *testing.T) {
	if LatencyBound(0) != 100*time.Nanosecond || LatencyBound(5) != 5*time.Microsecond || LatencyBound(LatencyBuckets-2) != 10*time.Second {
		t.Errorf("%v, %v, %v", LatencyBound(0), LatencyBound(5), LatencyBound(LatencyBuckets-2))
	}
	for want := range LatencyBuckets {
		below := time.Duration(-1)
		if want > 0 {
			below = LatencyBound(want - 1)
		}
		for _, d := range []time.Duration{below + 1, LatencyBound(want)} {
			var h LatencyHistogram
			h.Add(d)
			if h.Buckets[want] != 1 || h.Count != 1 || h.Sum != d {
				t.Errorf("%v: %+v, want bucket %d", d, h, want)
			}
		}
	}
	var h LatencyHistogram
	h.Add(-1) // a clock that went back
	if h.Buckets[0] != 1 || h.Sum != 0 {
		t.Errorf("%+v", h)
	}
}

// unmeasured is a device that measures nothing.
type unmeasured struct{ deviceDriver }

func (unmeasured) Latencies() ([]LatencyHistogram, error) { return nil, ErrNotSupported }

func TestLatenciesUnsupported(t *testing.T) {
	d := &Device{drv: unmeasured{}}
	if _, err := d.Latencies(); !errors.Is(err, ErrNotSupported) {
		t.Error(err)
	}
}
