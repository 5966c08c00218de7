// SPDX-License-Identifier: Apache-2.0

package demo

// Report is the result of the demo.
type Report struct {
	Devices  [2]string `json:"devices"`
	Over     string    `json:"over"`
	Kernel   bool      `json:"kernel,omitempty"` // the devices are the kernel's, perhaps of hardware
	Needs    string    `json:"needs,omitempty"`  // the rights that the devices take
	PathMTU  int       `json:"path_mtu_bytes"`
	Rows     []Row     `json:"operations"`
	Seconds  float64   `json:"elapsed_seconds"`
	Recorded bool      `json:"recorded"` // packets were recorded: the figures do not represent a plain run

	// How many processors other processes have used meanwhile, nil where the system does not tell; and whether that
	// was too much for any of the figures to mean anything.
	Others *float64 `json:"processors_used_by_others,omitempty"`
	Busy   bool     `json:"busy"`

	Cable *CableReport `json:"cable_pulled,omitempty"` // of a fabric whose cable was pulled
}

// Row is one operation of a demo. Figures that were not measured are 0.
type Row struct {
	Operation         string  `json:"operation"`
	Transport         string  `json:"transport"`
	Size              int     `json:"size_bytes"`
	Messages          int     `json:"messages"`
	VerifiedBytes     int64   `json:"verified_bytes"`
	RoundTripUs       float64 `json:"round_trip_us,omitempty"` // median
	TCPRoundTripUs    float64 `json:"tcp_round_trip_us,omitempty"`
	BytesPerSecond    float64 `json:"bytes_per_second,omitempty"` // median of the repetitions
	TCPBytesPerSecond float64 `json:"tcp_bytes_per_second,omitempty"`
	Disturbed         bool    `json:"disturbed"` // the machine was too busy for meaningful figures
	TCPDisturbed      bool    `json:"tcp_disturbed"`
}

// Verified returns how many bytes arrived and were compared.
func (r *Report) Verified() (n int64) {
	for _, row := range r.Rows {
		n += row.VerifiedBytes
	}
	return n
}
