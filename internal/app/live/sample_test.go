// SPDX-License-Identifier: Apache-2.0

package live

import (
	"testing"
	"time"

	"github.com/ramjet-rdma/ramjet/verbs/metric"
)

// The coarse past has the same sums as the recent one, for longer, and the last, shorter sum comes last.
func TestHistoryCoarse(t *testing.T) {
	var h History
	if !h.Empty() || len(h.Coarse(9)) != 0 {
		t.Error("there is something at the beginning")
	}
	start := time.Unix(1e9, 0)
	const seconds, keep = 100, 40
	for i := range seconds {
		h.Add(Sample{At: start.Add(time.Duration(i+1) * time.Second), Over: time.Second, RTT: time.Duration(i),
			Counts: metric.QPCounts{SentBytes: uint64(i), LateAcks: 1}}, keep)
	}
	if n := len(h.Last(1000)); n != keep {
		t.Errorf("%d recent samples", n)
	}
	coarse := h.Coarse(1000)
	if len(coarse) != 4 {
		t.Fatalf("%d samples", len(coarse))
	}
	var over time.Duration
	var bytes, late uint64
	for _, s := range coarse {
		over, bytes, late = over+s.Over, bytes+s.Counts.SentBytes, late+s.Counts.LateAcks
	}
	if over != seconds*time.Second || bytes != seconds*(seconds-1)/2 || late != seconds {
		t.Errorf("%v, %d bytes, %d late", over, bytes, late)
	}
	if last := coarse[3]; last.Over != 10*time.Second || last.RTT != seconds-1 ||
		!last.At.Equal(start.Add(seconds*time.Second)) {
		t.Errorf("the last: %+v", last)
	}
	if one := h.Coarse(1); len(one) != 2 || !one[0].At.Equal(start.Add(90*time.Second)) {
		t.Errorf("the newest of the coarse past: %+v", one)
	}
}
