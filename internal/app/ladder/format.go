// SPDX-License-Identifier: Apache-2.0

package ladder

import (
	"fmt"
	"strconv"
	"time"

	"github.com/ramjet-rdma/ramjet/wire/ib"
)

// count formats a number with its thousands apart: 12,345.
func count(n int) string {
	s := strconv.Itoa(n)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// size formats a number of bytes: exact while that is short, as payloads are compared with MTUs.
func size(n int64) string {
	switch {
	case n < 10_000:
		return fmt.Sprintf("%d B", n)
	case n < 1_000_000:
		return fmt.Sprintf("%.1f kB", float64(n)/1e3)
	case n < 1_000_000_000:
		return fmt.Sprintf("%.1f MB", float64(n)/1e6)
	}
	return fmt.Sprintf("%.1f GB", float64(n)/1e9)
}

// Size formats a number of bytes of traffic.
func Size(n int64) string { return size(n) }

// Count formats a number with its thousands apart.
func Count(n int) string { return count(n) }

// elapsed formats a time between packets with three digits.
func elapsed(d time.Duration) string {
	for _, u := range []struct {
		unit time.Duration
		name string
	}{{time.Second, "s"}, {time.Millisecond, "ms"}, {time.Microsecond, "µs"}} {
		if v := float64(d) / float64(u.unit); v >= 1 {
			switch {
			case v >= 100:
				return fmt.Sprintf("%.0f %s", v, u.name)
			case v >= 10:
				return fmt.Sprintf("%.1f %s", v, u.name)
			}
			return fmt.Sprintf("%.2f %s", v, u.name)
		}
	}
	return fmt.Sprintf("%d ns", d.Nanoseconds())
}

// Elapsed formats a time between packets with three digits.
func Elapsed(d time.Duration) string { return elapsed(d) }

// psns formats a range of PSNs.
func psns(from, to ib.PSN) string {
	if from == to {
		return fmt.Sprintf("%d", from)
	}
	return fmt.Sprintf("%d–%d", from, to)
}

// plural is "1 packet" or "3 packets".
func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return count(n) + " " + what + "s"
}
