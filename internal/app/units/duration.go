// SPDX-License-Identifier: Apache-2.0

package units

import (
	"math"
	"strconv"
	"time"

	"github.com/dustin/go-humanize"
)

// Duration writes a time that was measured, with three digits: 27 ns, 12.3 µs, 1.50 s. From a minute on
// it has whole seconds, and from an hour on whole minutes: 2 min 5 s, 3 h 20 min.
func Duration(d time.Duration) string { return nanoseconds(float64(d)) }

// Seconds writes a number of seconds as Duration does, and fractions of a nanosecond too.
func Seconds(s float64) string { return nanoseconds(s * 1e9) }

// Period writes a time that was set, exactly: 10 s, 1.5 s, 250 ms, 1 min 30 s.
func Period(d time.Duration) string {
	switch {
	case d == 0:
		return "0 s"
	case d < 0:
		return "-" + nanoseconds(-float64(d)) // no option has one
	case d >= time.Minute:
		return clock(d)
	}
	v, prefix := humanize.ComputeSI(float64(d))
	return strconv.FormatFloat(v, 'f', -1, 64) + " " + timeUnit(prefix)
}

func nanoseconds(ns float64) string {
	switch r := rounded(ns); {
	case math.IsNaN(ns) || math.IsInf(ns, 0):
		return none
	case ns < 0:
		return "-" + nanoseconds(-ns)
	case ns == 0:
		return "0 s"
	case ns < 1:
		return hundredths(ns) + " ns"
	case r < 1e3 && r == math.Trunc(r):
		return strconv.FormatFloat(r, 'f', 0, 64) + " ns"
	case ns >= 1e18: // 31 years
		return strconv.FormatFloat(ns/1e9, 'g', 3, 64) + " s"
	case ns >= 3600e9-0.5e9:
		return clock(time.Duration(ns).Round(time.Minute))
	case r >= 60e9:
		return clock(time.Duration(ns).Round(time.Second))
	default:
		v, prefix := humanize.ComputeSI(r)
		return threeDigits(v) + " " + timeUnit(prefix)
	}
}

// timeUnit returns the unit that is so many nanoseconds.
func timeUnit(prefix string) string {
	switch prefix {
	case "":
		return "ns"
	case "k":
		return "µs"
	case "M":
		return "ms"
	}
	return "s"
}

// clock writes a minute and more.
func clock(d time.Duration) string {
	s := ""
	for _, u := range []struct {
		unit time.Duration
		name string
	}{{time.Hour, "h"}, {time.Minute, "min"}} {
		if n := d / u.unit; n > 0 {
			s += Count(int64(n)) + " " + u.name + " "
			d -= n * u.unit
		}
	}
	if d > 0 {
		return s + strconv.FormatFloat(d.Seconds(), 'f', -1, 64) + " s"
	}
	return s[:len(s)-1]
}
