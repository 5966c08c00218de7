// SPDX-License-Identifier: Apache-2.0

package softdev

import (
	"time"

	"github.com/ramjet-rdma/ramjet/internal/base/clock"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// latencyEvery is how many posts of a queue pair share a measurement of how long they take: looking at the
// clock costs as much as a small message does otherwise.
const latencyEvery = 64

// latencies has the samples of a device, by operation. The view's lock covers it.
type latencies [verbs.WCRecv]verbs.Latency // WCRecv and the opcodes behind it are no sends

// sampled returns the time if this post is to be measured, and else zero.
func (q *QP) sampled() clock.Time {
	if q.unsampled > 0 {
		q.unsampled--
		return 0
	}
	q.unsampled = latencyEvery - 1
	return q.lane.Now()
}

// recordLatency notes how long a work request took.
func (d *Device) recordLatency(op verbs.WCOp, t clock.Time) {
	d.view.Lock()
	defer d.view.Unlock()
	d.latency[op].Add(time.Duration(t))
}

// Latencies returns the measured latencies, in the order of the operations.
func (d *Device) Latencies() (all []verbs.Latency, err error) {
	d.view.Lock()
	defer d.view.Unlock()
	for op := range d.latency {
		if h := &d.latency[op]; h.Count > 0 {
			h.Op = verbs.WCOp(op)
			all = append(all, *h)
		}
	}
	return all, nil
}
