// SPDX-License-Identifier: Apache-2.0

package perf

import (
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/ramjet-rdma/ramjet/verbs"
)

// Report is one side's result of a measurement.
type Report struct {
	Sent     uint64        `json:"sent"`                  // messages that this side sent and that completed
	Elapsed  time.Duration `json:"elapsed_ns"`            // of sending them, to the last completion
	Peak     float64       `json:"peak_bytes_per_second"` // over the best stretch of four queue depths
	Received uint64        `json:"received"`              // messages that arrived here, warm-up included; SEND only
	Arriving time.Duration `json:"arriving_ns"`           // from the first to the last of them
	Allocs   uint64        `json:"allocs"`                // heap objects that the whole process allocated meanwhile
	Verified bool          `json:"verified"`              // the data that arrived here is the sent data
}

// RoundTrip is a distribution of round trips in nanoseconds, for every operation:
// perftest halves the times of SEND and WRITE.
type RoundTrip struct {
	Trips int64         `json:"trips"`
	Min   time.Duration `json:"min_ns"`
	Max   time.Duration `json:"max_ns"`
	P50   time.Duration `json:"p50_ns"`
	P99   time.Duration `json:"p99_ns"`
	P999  time.Duration `json:"p99_9_ns"`
	Mean  float64       `json:"mean_ns"`
	Stdev float64       `json:"stdev_ns"`
}

// Result is the outcome of one measurement.
type Result struct {
	Config Config `json:"config"`
	MTU    int    `json:"mtu_bytes"` // path MTU in bytes
	// both directions together; messages that arrived, if that is known
	Messages          uint64        `json:"messages"`
	Lost              uint64        `json:"lost"` // UC and UD SEND: sent but not arrived
	Elapsed           time.Duration `json:"elapsed_ns"`
	BytesPerSecond    float64       `json:"bytes_per_second"`
	PeakPerSecond     float64       `json:"peak_bytes_per_second"`
	MessagesPerSecond float64       `json:"messages_per_second"`
	RoundTrip         *RoundTrip    `json:"round_trip,omitempty"`
	Local             Report        `json:"local"` // the client's
	Peer              Report        `json:"peer"`  // the server's

	Trips *hdrhistogram.Histogram `json:"-"` // of RoundTrip, in nanoseconds; nil: there is none
	QPs   []verbs.QPStats         `json:"-"` // of this side at the end; none: the device does not tell
}

// maxTrip limits the round trips that the histogram resolves.
const maxTrip = time.Minute

func newHistogram() *hdrhistogram.Histogram { return hdrhistogram.New(1, int64(maxTrip), 3) }

// RoundTripOf returns the figures of a histogram of round trips in nanoseconds.
func RoundTripOf(h *hdrhistogram.Histogram) *RoundTrip {
	at := func(q float64) time.Duration { return time.Duration(h.ValueAtQuantile(q)) }
	return &RoundTrip{Trips: h.TotalCount(), Min: time.Duration(h.Min()), Max: time.Duration(h.Max()),
		P50: at(50), P99: at(99), P999: at(99.9), Mean: h.Mean(), Stdev: h.StdDev()}
}

// newResult combines the two sides' reports.
func newResult(c Config, mtu int, local, peer Report, trips *hdrhistogram.Histogram) *Result {
	r := &Result{Config: c, MTU: mtu, Local: local, Peer: peer}
	if c.Mode == Latency {
		if trips != nil {
			r.RoundTrip, r.Trips = RoundTripOf(trips), trips
		}
		r.Messages, r.Elapsed = local.Sent, local.Elapsed
		if r.Elapsed > 0 {
			r.MessagesPerSecond = float64(r.Messages) / r.Elapsed.Seconds()
			r.BytesPerSecond = r.MessagesPerSecond * float64(c.Size)
		}
		return r
	}
	r.addDirection(local, peer)
	if c.Both {
		r.addDirection(peer, local)
	}
	return r
}

// addDirection adds the data sent from from to to.
func (r *Result) addDirection(from, to Report) {
	n, elapsed := from.Sent, from.Elapsed
	if r.Config.counted() && r.Config.Transport != RC {
		// Without acknowledgements sending means little: received messages count. On both sides that
		// includes the warm-up.
		n, elapsed = to.Received, to.Arriving
		sent := from.Sent + uint64(r.Config.warmupPerQP()*r.Config.QPs)
		r.Lost += sent - min(sent, n)
	}
	r.Messages += n
	r.Elapsed = max(r.Elapsed, elapsed)
	r.PeakPerSecond += from.Peak
	if elapsed > 0 {
		rate := float64(n) / elapsed.Seconds()
		r.MessagesPerSecond += rate
		r.BytesPerSecond += rate * float64(r.Config.Size)
	}
	// A stretch is measured at the sender, the average perhaps at the receiver.
	r.PeakPerSecond = max(r.PeakPerSecond, r.BytesPerSecond)
}

// warmupPerQP is how many messages a queue pair sends before the clock starts.
func (c *Config) warmupPerQP() int { return (c.Warmup + c.QPs - 1) / c.QPs }
