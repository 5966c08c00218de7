// SPDX-License-Identifier: Apache-2.0

package demo

import "time"

// Report is the result of the demo.
type Report struct {
	Devices  [2]string     `json:"devices"`
	Kind     string        `json:"kind"`
	Over     string        `json:"over"`
	Kernel   bool          `json:"kernel,omitempty"` // the devices are the kernel's, perhaps of hardware
	Needs    string        `json:"needs,omitempty"`  // the rights that the devices take
	PathMTU  int           `json:"path_mtu_bytes"`
	Rows     []Row         `json:"operations"`
	Elapsed  time.Duration `json:"elapsed_ns"`
	Recorded bool          `json:"recorded"` // packets were recorded: the figures do not represent a plain run

	Stopped *StoppedReport `json:"stopped,omitempty"` // nil where there is no shared memory, or the checker
	Packets string         `json:"packets,omitempty"` // of one WRITE, as a ladder; empty: they cannot be seen
	Speed   []Speed        `json:"speed"`             // WRITEs, by their carrier

	// How many processors other processes have used meanwhile, nil where the system does not tell; and whether that
	// was too much for any of the figures to mean anything.
	Others *float64 `json:"processors_used_by_others,omitempty"`
	Busy   bool     `json:"busy"`

	Cable *CableReport `json:"cable_pulled,omitempty"` // of a fabric whose cable was pulled
}

// Row is one operation of a demo, of which both processes compared every byte.
type Row struct {
	Operation     string `json:"operation"`
	Transport     string `json:"transport"`
	Size          int    `json:"size_bytes"`
	Messages      int    `json:"messages"`
	VerifiedBytes int64  `json:"verified_bytes"`
}

// StoppedReport describes READs whose target was stopped by a signal.
type StoppedReport struct {
	Device        string        `json:"device"`
	Reads         int           `json:"reads"`
	Size          int           `json:"size_bytes"`
	VerifiedBytes int64         `json:"verified_bytes"`
	Elapsed       time.Duration `json:"elapsed_ns"`
	TargetNs      *float64      `json:"target_processor_ns,omitempty"` // nil where the system does not tell
}

// Speed is the speed of WRITEs between the two processes, or of TCP. Figures that were not measured are 0.
type Speed struct {
	Over           string        `json:"over"`          // a kind of device, or TCP
	Bound          string        `json:"bound"`         // the bottleneck, for people
	RoundTrip      time.Duration `json:"round_trip_ns"` // the median
	Shortest       time.Duration `json:"shortest_round_trip_ns"`
	BytesPerSecond float64       `json:"bytes_per_second"` // the median of streams
	BestPerSecond  float64       `json:"best_bytes_per_second"`
	// Nanoseconds of the target's processor for each byte that it gets, in the streams that BytesPerSecond is of; nil
	// where the system does not tell.
	TargetNsPerByte *float64 `json:"target_processor_ns_per_byte,omitempty"`
}

// TCP is the name of TCP in Speed.
const TCP = "TCP"

// Verified returns how many bytes arrived and were compared.
func (r *Report) Verified() (n int64) {
	for _, row := range r.Rows {
		n += row.VerifiedBytes
	}
	return n
}
