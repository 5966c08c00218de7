// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"time"
)

// Tables have figures with three digits and a unit: times from ns to s, bandwidths in 10^9 bytes a second, and
// memory in powers of 1024 (package bytesize has sizes that are whole).

// shortTime formats a time with three digits.
func shortTime(d time.Duration) string {
	for _, u := range []struct {
		unit time.Duration
		name string
	}{{time.Second, "s"}, {time.Millisecond, "ms"}, {time.Microsecond, "µs"}} {
		if d < u.unit {
			continue
		}
		v := float64(d) / float64(u.unit)
		switch {
		case v >= 100:
			return fmt.Sprintf("%.0f %s", v, u.name)
		case v >= 10:
			return fmt.Sprintf("%.1f %s", v, u.name)
		}
		return fmt.Sprintf("%.2f %s", v, u.name)
	}
	return fmt.Sprintf("%d ns", d)
}

// bandwidthText formats bytes a second; 0: there is no figure.
func bandwidthText(b float64) string {
	switch {
	case b == 0:
		return ""
	case b < 1e7:
		return fmt.Sprintf("%.2f MB/s", b/1e6)
	}
	return fmt.Sprintf("%.2f GB/s", b/1e9)
}

// held formats memory in whole KiB or MiB.
func held(n int) string {
	switch {
	case n >= 10<<20, n > 0 && n%(1<<20) == 0:
		return fmt.Sprintf("%d MiB", (n+1<<19)>>20)
	case n > 0:
		return fmt.Sprintf("%d KiB", (n+1023)>>10)
	}
	return "0"
}
