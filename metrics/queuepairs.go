// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"slices"
	"time"

	"github.com/ramjet-rdma/ramjet/verbs"
)

// queuePairs tells of the queue pairs together, and of the first limit of them one by one.
func (s *scrape) queuePairs(all []verbs.QPStats, limit int) {
	type group struct {
		kind  verbs.QPType
		state verbs.QPState
	}
	count := map[group]int{}
	var sends, receives, flight int
	var trips []time.Duration
	for i := range all {
		q := &all[i]
		count[group{q.Type, q.State}]++
		sends, receives, flight = sends+q.SendQueue, receives+q.RecvQueue, flight+q.InFlight
		if q.RTT > 0 {
			trips = append(trips, q.RTT)
		}
	}
	for g, n := range count {
		s.gauge("qp_states", "queue pairs, by type and state", float64(n), label{"type", g.kind.String()},
			label{"state", g.state.String()})
	}
	s.gauge("qps_send_queue", "send work requests of all queue pairs that have not completed", float64(sends))
	s.gauge("qps_recv_queue", "receives of all queue pairs that are posted; those of a shared queue count for each",
		float64(receives))
	s.gauge("qps_in_flight_bytes", "bytes of all queue pairs that are not acknowledged", float64(flight))
	if len(trips) > 0 {
		slices.Sort(trips)
		const help = "of the smoothed round trips of the queue pairs that measure one"
		s.gauge("qps_rtt_median_seconds", "the median "+help, trips[len(trips)/2].Seconds())
		s.gauge("qps_rtt_max_seconds", "the longest "+help, trips[len(trips)-1].Seconds())
	}
	if limit <= 0 {
		return
	}
	named := min(limit, len(all)) // QPStats sorts by number
	for i := range all[:named] {
		list := all[i].Metrics()
		for j := range list {
			s.metric(&list[j])
		}
	}
	s.gauge("qps_omitted", "queue pairs without series of their own, beyond the limit", float64(len(all)-named))
}
