// SPDX-License-Identifier: Apache-2.0

package dash

import (
	"github.com/ramjet-rdma/ramjet/internal/app/live"
	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/verbs/metric"
)

// Latency is how long work requests took, of devices together, since each was opened: from posting to completion, of
// samples. It is of devices, not of single queue pairs.
type Latency struct {
	BoundsNS   []int64            `json:"bounds_ns"` // of the buckets, from above; the last bucket has none
	Operations []OperationLatency `json:"operations"`
}

// OperationLatency is the histogram of an operation.
type OperationLatency struct {
	Name    string   `json:"name"` // such as RDMA_WRITE
	Samples uint64   `json:"samples"`
	MeanNS  int64    `json:"mean_ns"`
	Buckets []uint64 `json:"buckets"` // samples in each, and not in the one before
}

// devicesOf returns the devices of processes.
func devicesOf(processes ...*live.Process) (all []*live.Device) {
	for _, p := range processes {
		all = append(all, p.Devices...)
	}
	return all
}

// latencyOf adds up the histograms of devices, in the order of the operations.
func latencyOf(devices []*live.Device) Latency {
	out := Latency{BoundsNS: []int64{}, Operations: []OperationLatency{}}
	var sums [verbs.WCRecv]verbs.Latency // the operations of send work requests
	for _, d := range devices {
		for i := range d.Info.Latencies {
			h := &d.Info.Latencies[i]
			if int(h.Op) >= len(sums) { // of a newer process
				continue
			}
			sum := &sums[h.Op]
			sum.Count += h.Count
			sum.Sum += h.Sum
			for b, n := range h.Buckets {
				sum.Buckets[b] += n
			}
		}
	}
	for op := range sums {
		if h := &sums[op]; h.Count > 0 {
			out.Operations = append(out.Operations,
				OperationLatency{verbs.WCOp(op).String(), h.Count, int64(uint64(max(h.Sum, 0)) / h.Count),
					append([]uint64(nil), h.Buckets[:]...)})
		}
	}
	for b := range metric.Buckets - 1 {
		out.BoundsNS = append(out.BoundsNS, int64(metric.Bound(b)))
	}
	return out
}
