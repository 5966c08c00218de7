// SPDX-License-Identifier: Apache-2.0

package verbs

import "time"

// LatencyBuckets is how many buckets a [LatencyHistogram] has.
const LatencyBuckets = 26

// LatencyHistogram is how long send work requests of an operation took, from posting to completion with success:
// to the acknowledgement or the response on reliable connections, to the sending elsewhere. A device measures
// samples of them, see [Device.Latencies].
type LatencyHistogram struct {
	Op      WCOp
	Count   uint64 // samples
	Sum     time.Duration
	Buckets [LatencyBuckets]uint64 // samples in each, without those in the buckets below; see [LatencyBound]
}

// LatencyBound returns the largest duration in a bucket: 100 ns, 200 ns, 500 ns, 1 µs and so on to 10 s.
// The last bucket has all that is longer, and its bound is the longest duration that there is.
func LatencyBound(bucket int) time.Duration {
	if bucket >= LatencyBuckets-1 {
		return 1<<63 - 1
	}
	d := 100 * time.Nanosecond
	for range bucket / 3 {
		d *= 10
	}
	return d * [...]time.Duration{1, 2, 5}[bucket%3]
}

// Add adds a sample.
func (h *LatencyHistogram) Add(d time.Duration) {
	d = max(d, 0)
	bucket := 0
	for bound := 100 * time.Nanosecond; bucket < LatencyBuckets-1; bound *= 10 {
		switch {
		case d <= bound:
		case d <= 2*bound:
			bucket++
		case d <= 5*bound:
			bucket += 2
		default:
			bucket += 3
			continue
		}
		break
	}
	h.Buckets[min(bucket, LatencyBuckets-1)]++
	h.Count++
	h.Sum += d
}

// Latencies returns how long work requests took since the device was opened, for each operation of which
// it has samples. It measures one of about 64 work requests of a queue pair, the first among them, and of
// requests that are posted together the first. ErrNotSupported: it measures none.
func (d *Device) Latencies() ([]LatencyHistogram, error) {
	l, err := d.drv.Latencies()
	return l, wrap("latencies", err)
}
