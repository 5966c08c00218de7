// SPDX-License-Identifier: Apache-2.0

package perf

import (
	"fmt"
	"time"

	"github.com/ramjet-rdma/ramjet/internal/app/perf/baseline"
)

// roceFigures returns the figures of RoCEv2.
func roceFigures(d time.Duration) []Figure {
	const mib, small, overhead = 1 << 20, 64, 12 + 4 // the BTH and the ICRC of a packet
	var figures []Figure
	for _, mtu := range []int{4096, 1024} {
		for _, op := range []Op{Write, Read, Send} {
			system, cubic := 1.35, 0.7
			if op != Write {
				system, cubic = 1.2, 0.6
			}
			if mtu == 1024 {
				system, cubic = 1.0, 0.5
			}
			figures = append(figures, Figure{
				Name: fmt.Sprintf("RC %v, 1 MiB, MTU %d", op, mtu), Unit: BytesPerSecond,
				Config: Config{Op: op, Mode: Bandwidth, Size: mib, MTU: mtu, Duration: d},
				Against: []Reference{{Name: "TCP", Baseline: sockets(d, baseline.TCPStream, mib, ""), Want: system},
					{Name: "TCP cubic", Baseline: sockets(d, baseline.TCPStream, mib, "cubic"), Want: cubic},
					{Name: "UDP, bare GSO sends of such packets",
						Baseline: sockets(d, baseline.UDPTrains, mtu+overhead, "")}},
			})
		}
	}
	for _, op := range []Op{Send, Write, Read, FetchAdd, CompareSwap} {
		size, want := small, 1.4
		if op.fetches() {
			want = 1.5
		}
		if op.atomic() {
			size = 8
		}
		against := []Reference{{Name: "UDP polled", Baseline: sockets(d, baseline.UDPPolled, size, ""), Want: want}}
		if !op.fetches() {
			against = append(against, Reference{Name: "TCP polled", Baseline: sockets(d, baseline.TCPPolled, size, ""),
				Want: 1})
		}
		figures = append(figures, Figure{Name: fmt.Sprintf("RC %v, %d B, round trip, polling", op, size),
			Unit: RoundTripTime, Config: Config{Op: op, Mode: Latency, Size: size, Duration: d}, Against: against})
	}
	for _, op := range []Op{Send, Write, Read} {
		figures = append(figures, Figure{Name: fmt.Sprintf("RC %v, %d B, round trip, sleeping", op, small),
			Unit: RoundTripTime, Config: Config{Op: op, Mode: Latency, Size: small, Duration: d, Events: true},
			Against: []Reference{{Name: "net.UDPConn", Baseline: sockets(d, baseline.UDPSleeping, small, ""),
				Want: 1.2}}})
	}
	for _, c := range []Config{{Op: Send, Transport: RC}, {Op: Write, Transport: RC}, {Op: Send, Transport: UD}} {
		want := 5.0
		if c.Transport == UD {
			want = 4
		}
		c.Mode, c.Size, c.Duration = Bandwidth, small, d
		figures = append(figures, Figure{Name: fmt.Sprintf("%s %v, %d B, one deep queue", c.Transport, c.Op, small),
			Unit: MessagesPerSecond, Config: c.Deep(),
			Against: []Reference{{Name: "sendmmsg/recvmmsg", Baseline: sockets(d, baseline.UDPPackets, small, ""),
				Want: want}}})
	}
	for _, c := range []Config{{Op: Write, Size: mib}, {Op: Write, Size: mib / 16}, {Op: Send, Size: small}} {
		c.Mode, c.Duration = Bandwidth, d
		unit, size := BytesPerSecond, "64 KiB"
		against := []Reference{{Name: "one queue pair", Config: &c, Want: 1}}
		switch c.Size {
		case small:
			c, unit, size = c.Deep(), MessagesPerSecond, "64 B"
			c.TxDepth, c.RxDepth = 128, 512
		case mib:
			size = "1 MiB"
			alike := c // touches as much memory as all of them
			alike.Size = 16 * mib
			against = append(against, Reference{Name: "one queue pair, 16 MiB messages", Config: &alike, Want: 1})
		}
		together := c
		together.QPs = 16
		figures = append(figures, Figure{Name: fmt.Sprintf("RC %v, %s, 16 queue pairs together", c.Op, size),
			Unit: unit, Config: together, Against: against})
	}
	return figures
}
