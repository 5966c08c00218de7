// SPDX-License-Identifier: Apache-2.0

// Package units writes numbers, sizes, rates and times for people, and parses the sizes that they write.
//
// A figure has at most four digits, a blank and a unit. Integers are exact below 10,000, so that an MTU
// stays one: 4096 B. Other figures have three digits and a prefix: 12.3 kB, 1.23 GB/s, 45.6 µs. Amounts of
// moved data are in powers of 1000, as bandwidths of links are; settings and amounts of memory are in powers
// of 1024, whose units have an i: 64 KiB.
//
// The page of package dash has the same rules in JavaScript.
package units

import (
	"math"
	"math/big"
	"strconv"
	"strings"

	"github.com/dustin/go-humanize"
	"github.com/dustin/go-humanize/english"
)

// integer and number are the types of values that are written.
type (
	integer interface {
		~int | ~int64 | ~uint32 | ~uint64
	}
	number interface{ integer | ~float64 }
)

// none stands for values that are no numbers, such as a rate over no time.
const none = "-"

// Count writes a number with all its digits, the thousands apart: 12,345.
func Count[N integer](n N) string {
	if n > 0 && int64(n) < 0 {
		return humanize.BigComma(new(big.Int).SetUint64(uint64(n)))
	}
	return humanize.Comma(int64(n))
}

// Plural writes how many of something there are: 1 packet, 1,234 switches.
func Plural[N integer](n N, one string) string {
	quantity := 2
	if n == 1 {
		quantity = 1
	}
	return Count(n) + " " + english.PluralWord(quantity, one, "")
}

// Short writes a number in at most five characters, without its sign: 9999, 12.3k, 1.23M. Its name or
// the head of its column has the unit.
func Short[N number](n N) string {
	digits, prefix := scaled(float64(n))
	return digits + prefix
}

// Bytes writes an amount of moved data: 1500 B, 12.3 kB.
func Bytes[N number](n N) string { return with(float64(n), "B") }

// Rate writes bytes a second: 12.3 MB/s.
func Rate(bytes float64) string { return with(bytes, "B/s") }

// BitRate writes bits a second: 12.3 Gb/s.
func BitRate(bits float64) string { return with(bits, "b/s") }

// PerSecond writes how often something happens in a second: 12.3k/s.
func PerSecond(v float64) string {
	s := Short(v)
	if s == none {
		return none
	}
	return s + "/s"
}

// Percent writes a share of 1: 0.4%, 12%.
func Percent(share float64) string {
	switch v := 100 * share; {
	case math.IsNaN(v) || math.IsInf(v, 0):
		return none
	case v > 0 && v < 0.05:
		return "<0.1%"
	case v != 0 && math.Abs(v) < 9.95:
		return strconv.FormatFloat(v, 'f', 1, 64) + "%"
	default:
		return strconv.FormatFloat(v, 'f', 0, 64) + "%"
	}
}

// PercentSet writes a share of 1 that was set, to a millionth of a percent: 0.05%.
func PercentSet(share float64) string { return humanize.Ftoa(100*share) + "%" }

// Tight takes the blank out of a figure: columns that blanks separate have figures without.
func Tight(figure string) string { return strings.ReplaceAll(figure, " ", "") }

// with writes a number with a unit that takes prefixes.
func with(v float64, unit string) string {
	digits, prefix := scaled(v)
	if digits == none {
		return none
	}
	return digits + " " + prefix + unit
}

// scaled returns the digits of a number and the prefix of its power of 1000.
func scaled(v float64) (digits, prefix string) {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return none, ""
	}
	if whole := math.Round(v); math.Abs(whole) < 10_000 && (whole == v || math.Abs(v) >= 99.95) {
		return strconv.Itoa(int(whole)), ""
	}
	if math.Abs(v) < 1 { // no prefixes below 1: half a message a second
		return hundredths(v), ""
	}
	v, prefix = humanize.ComputeSI(rounded(v))
	return threeDigits(v), prefix
}

// rounded returns a number with three digits. It comes before the prefix is chosen: 999.9 k is 1.00 M.
func rounded(v float64) float64 {
	r, err := strconv.ParseFloat(strconv.FormatFloat(v, 'e', 2, 64), 64)
	if err != nil { // not for FormatFloat's text, but for the largest of all numbers
		return v
	}
	return r
}

// threeDigits writes a number from 1 to 999.
func threeDigits(v float64) string {
	decimals := 2
	switch a := math.Abs(v); {
	case a >= 100:
		decimals = 0
	case a >= 10:
		decimals = 1
	}
	return strconv.FormatFloat(v, 'f', decimals, 64)
}

// hundredths writes a number below 1. A number other than 0 does not become 0.
func hundredths(v float64) string {
	switch {
	case v > 0 && v < 0.005:
		return "<0.01"
	case v < 0 && v > -0.005:
		return ">-0.01"
	}
	return strconv.FormatFloat(v, 'f', 2, 64)
}
