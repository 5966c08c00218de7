// SPDX-License-Identifier: Apache-2.0

package perf

import (
	"time"

	"github.com/ramjet-rdma/ramjet/internal/netio/baseline"
)

// Figures returns all figures, each of their measurements d long.
func Figures(d time.Duration) []Figure { return append(roceFigures(d), iwarpFigures(d)...) }

// bare is what bare sockets do, with the system's congestion control if cc is empty.
func bare(d time.Duration, k baseline.Kind, size int, cc string) *baseline.Config {
	return &baseline.Config{Kind: k, Size: size, Duration: d, Congestion: cc}
}
