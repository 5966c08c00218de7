// SPDX-License-Identifier: Apache-2.0

package sm

import (
	"testing"

	"github.com/ramjet-rdma/ramjet/internal/testkit/testrun"
)

// TestThousand brings up 1,024 adapters on a three-level fat tree of 320 switches.
func TestThousand(t *testing.T) {
	testrun.SkipUnlessLong(t, "1,344 nodes")
	s := newSubnet(t)
	all, _, _, _ := s.fatTree(16)
	mgr := s.manage(all[0], Config{})
	s.up(mgr)
	s.check(mgr)
	t.Logf("%d nodes, %d requests, %d hops", len(s.nodes), mgr.m.Counters.Requests, s.sent)
}

// BenchmarkBringUp is the processor time of manager and agents together, from the first packet until
// all links are active.
func BenchmarkBringUp(b *testing.B) {
	for _, k := range []int{4, 8, 16} {
		b.Run(map[int]string{4: "16", 8: "128", 16: "1024"}[k], func(b *testing.B) {
			for b.Loop() {
				b.StopTimer()
				s := newSubnet(b)
				all, _, _, _ := s.fatTree(k)
				mgr := s.manage(all[0], Config{})
				b.StartTimer()
				s.up(mgr)
				b.ReportMetric(float64(mgr.m.Counters.Requests), "requests")
				b.ReportMetric(float64(s.sent), "hops")
			}
		})
	}
}
