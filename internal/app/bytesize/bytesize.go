// SPDX-License-Identifier: Apache-2.0

// Package bytesize parses and formats numbers of bytes in human form: 64, 4K, 1 MiB.
package bytesize

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Size is a number of bytes, and a flag value.
type Size int

func (s *Size) String() string { return strconv.Itoa(int(*s)) }

// Type returns the name of the value in a command's help.
func (s *Size) Type() string { return "bytes" }

// Set parses a number, perhaps with K, M or G for powers of 1024, such as 64, 4K, 1MiB.
func (s *Size) Set(text string) error {
	digits := strings.TrimRight(strings.ToUpper(text), "KMGIB")
	shift, ok := map[string]int{"": 0, "B": 0, "K": 10, "KB": 10, "KIB": 10, "M": 20, "MB": 20, "MIB": 20, "G": 30, "GB": 30,
		"GIB": 30}[strings.ToUpper(text[len(digits):])]
	n, err := strconv.ParseUint(digits, 10, 63)
	if !ok || err != nil || n > math.MaxInt>>shift {
		return fmt.Errorf("%q is no size: give bytes, or such as 64K or 1M", text)
	}
	*s = Size(n << shift)
	return nil
}

// Text formats a number of bytes in the largest unit that divides it: 64 B, 4 KiB, 1 MiB.
func Text(n int) string {
	for i, unit := range []string{"GiB", "MiB", "KiB"} {
		if u := 1 << (30 - 10*i); n >= u && n%u == 0 {
			return fmt.Sprintf("%d %s", n/u, unit)
		}
	}
	return fmt.Sprintf("%d B", n)
}
