// SPDX-License-Identifier: Apache-2.0

package perf

import (
	"fmt"
	"time"

	"github.com/ramjet-rdma/ramjet/internal/netio/baseline"
)

// Devices that the figures of iWARP are measured on. TCP beside them has the same congestion
// control: the one that paces least, as the system's may be one that does.
const (
	iwarpCubic = "iwarp:?congestion=cubic"
	iwarpMSS   = "iwarp:?congestion=cubic&fpdu=1460" // FPDUs that fit a segment of Ethernet
)

// IWARPFigures returns the figures of iWARP, each of their measurements d long.
func IWARPFigures(d time.Duration) []Figure {
	const mib, small = 1 << 20, 64
	base := func(k baseline.Kind, size int) *baseline.Config {
		return &baseline.Config{Kind: k, Size: size, Duration: d, Congestion: "cubic"}
	}
	var figures []Figure
	for _, f := range []struct {
		device, name string
		want         float64
	}{{iwarpCubic, "long FPDUs", 0.9}, {iwarpMSS, "FPDUs of 1460 B", 0.7}} {
		for _, op := range []Op{Write, Read, Send} {
			figures = append(figures, Figure{Name: fmt.Sprintf("iWARP %v, 1 MiB, %s", op, f.name), Unit: BytesPerSecond, Device: f.device,
				Config:  Config{Op: op, Mode: Bandwidth, Size: mib, Duration: d},
				Against: []Reference{{Name: "TCP cubic", Baseline: base(baseline.TCPStream, mib), Want: f.want}}})
		}
	}
	for _, op := range []Op{Send, Write} {
		figures = append(figures, Figure{Name: fmt.Sprintf("iWARP %v, %d B, round trip, polling", op, small), Unit: RoundTripTime, Device: iwarpCubic,
			Config:  Config{Op: op, Mode: Latency, Size: small, Duration: d},
			Against: []Reference{{Name: "TCP cubic polled", Baseline: base(baseline.TCPPolled, small), Want: 1.3}}})
	}
	deep := Config{Op: Send, Mode: Bandwidth, Size: small, Duration: d}.Deep()
	return append(figures, Figure{Name: fmt.Sprintf("iWARP %v, %d B, one deep queue", Send, small), Unit: MessagesPerSecond, Device: iwarpCubic,
		Config: deep, Against: []Reference{{Name: "a fixed rate", Fixed: 1.5e6, Want: 1}}})
}
