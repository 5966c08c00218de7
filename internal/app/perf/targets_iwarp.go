// SPDX-License-Identifier: Apache-2.0

package perf

import (
	"fmt"
	"time"

	"github.com/ramjet-rdma/ramjet/internal/app/perf/baseline"
)

const iwarpCubic = "iwarp:?congestion=cubic"

// iwarpFigures returns the figures of iWARP. TCP beside them has the same congestion control: the
// system's, which may pace, and cubic.
func iwarpFigures(d time.Duration) []Figure {
	const mib, small = 1 << 20, 64
	var figures []Figure
	for _, f := range []struct {
		device, fpdus, tcp, cc string
		want                   float64
	}{
		{"iwarp:", "long FPDUs", "TCP", "", 0.9},
		{iwarpCubic, "long FPDUs, cubic", "TCP cubic", "cubic", 0.9},
		{"iwarp:?fpdu=1460", "FPDUs of 1460 B", "TCP", "", 0.7}, // fits a segment of Ethernet
		{iwarpCubic + "&fpdu=1460", "FPDUs of 1460 B, cubic", "TCP cubic", "cubic", 0.7},
	} {
		for _, op := range []Op{Write, Read, Send} {
			figures = append(figures, Figure{Name: fmt.Sprintf("iWARP %v, 1 MiB, %s", op, f.fpdus),
				Unit: BytesPerSecond, Device: f.device, Config: Config{Op: op, Mode: Bandwidth, Size: mib, Duration: d},
				Against: []Reference{{Name: f.tcp, Baseline: sockets(d, baseline.TCPStream, mib, f.cc), Want: f.want}}})
		}
	}
	for _, op := range []Op{Send, Write} {
		figures = append(figures, Figure{Name: fmt.Sprintf("iWARP %v, %d B, round trip, polling", op, small),
			Unit: RoundTripTime, Device: iwarpCubic, Config: Config{Op: op, Mode: Latency, Size: small, Duration: d},
			Against: []Reference{{Name: "TCP cubic polled", Baseline: sockets(d, baseline.TCPPolled, small, "cubic"),
				Want: 1.3}}})
	}
	deep := Config{Op: Send, Mode: Bandwidth, Size: small, Duration: d}.Deep()
	return append(figures, Figure{Name: fmt.Sprintf("iWARP %v, %d B, one deep queue", Send, small),
		Unit: MessagesPerSecond, Device: iwarpCubic, Config: deep,
		Against: []Reference{{Name: "a fixed rate", Fixed: 1.5e6, Want: 1}}})
}
