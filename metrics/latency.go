// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/verbs/metric"
)

// latencies tells how long work requests took, as histograms.
func (s *scrape) latencies(all []verbs.Latency) {
	desc := prometheus.NewDesc(namespace+"completion_latency_seconds",
		"from posting to completion with success, of samples: about one work request in 64",
		[]string{"device", "op"}, nil)
	for i := range all {
		h := &all[i]
		buckets := make(map[float64]uint64, len(h.Buckets)-1) // Prometheus adds the last one
		var sum uint64
		for b, n := range h.Buckets[:len(h.Buckets)-1] {
			sum += n
			buckets[metric.Bound(b).Seconds()] = sum
		}
		m, err := prometheus.NewConstHistogram(desc, h.Count, h.Sum.Seconds(), buckets, s.label, h.Op.String())
		if err != nil {
			m = prometheus.NewInvalidMetric(prometheus.NewInvalidDesc(err), err)
		}
		s.ch <- m
	}
}
