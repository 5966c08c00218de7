// SPDX-License-Identifier: Apache-2.0

package metric

import "time"

// Buckets is how many buckets a [Histogram] has.
const Buckets = 26

// Histogram counts durations by buckets, whose bounds [Bound] returns.
type Histogram struct {
	Count   uint64 // samples
	Sum     time.Duration
	Buckets [Buckets]uint64 // samples in each bucket alone; they are not cumulative
}

// Bound returns the largest duration in a bucket: 100 ns, 200 ns, 500 ns, 1 µs and so on to 10 s.
// The last bucket has all that is longer, and its bound is the longest duration that there is.
func Bound(bucket int) time.Duration {
	if bucket >= Buckets-1 {
		return 1<<63 - 1
	}
	d := 100 * time.Nanosecond
	for range bucket / 3 {
		d *= 10
	}
	return d * [...]time.Duration{1, 2, 5}[bucket%3]
}

// Add adds a sample.
func (h *Histogram) Add(d time.Duration) {
	d = max(d, 0)
	bucket := 0
	for bound := 100 * time.Nanosecond; bucket < Buckets-1; bound *= 10 {
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
	h.Buckets[min(bucket, Buckets-1)]++
	h.Count++
	h.Sum += d
}
