// SPDX-License-Identifier: Apache-2.0

package units

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/dustin/go-humanize"
)

// Bytesize is a number of bytes, and a flag value.
type Bytesize int

func (s *Bytesize) String() string { return strconv.Itoa(int(*s)) }

// Type returns the name of the value in a command's help.
func (s *Bytesize) Type() string { return "bytes" }

// Set parses a whole number, perhaps with a unit: K, M, G or KiB, MiB, GiB for powers of 1024, kB, MB, GB
// for powers of 1000, in capitals or not.
func (s *Bytesize) Set(text string) error {
	digits := strings.TrimLeft(text, "0123456789")
	unit := strings.ToLower(digits)
	switch unit {
	case "k", "m", "g":
		unit += "ib" // to the library they are powers of 1000
	case "", "b", "kib", "mib", "gib", "kb", "mb", "gb":
	default:
		unit = "no unit"
	}
	n, err := humanize.ParseBytes(text[:len(text)-len(digits)] + unit)
	if err != nil || n > math.MaxInt {
		return fmt.Errorf("%q is not a size: give bytes, or such as 64K or 1M", text)
	}
	*s = Bytesize(n)
	return nil
}

// Size writes a number of bytes exactly, in the largest power of 1024 that divides it: 64 B, 4 KiB, 1 MiB.
func Size[N integer](n N) string {
	unit := "B"
	for _, u := range []string{"KiB", "MiB", "GiB"} {
		if n == 0 || n%1024 != 0 {
			break
		}
		n, unit = n/1024, u
	}
	if n < 10_000 {
		return strconv.FormatInt(int64(n), 10) + " " + unit
	}
	return Count(n) + " " + unit
}

// Memory writes an amount of memory in whole units, rounded, with four digits at most: 4 KiB, 1028 KiB, 12 MiB.
func Memory(n int64) string {
	if n < 0 {
		return "-" + Memory(-n)
	}
	unit := int64(humanize.KiByte)
	for unit < humanize.GiByte && n/10_000 >= unit {
		unit <<= 10
	}
	return Size((n + unit/2) / unit * unit)
}
