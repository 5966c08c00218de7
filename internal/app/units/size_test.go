// SPDX-License-Identifier: Apache-2.0

package units

import (
	"math"
	"testing"
)

func TestBytesize(t *testing.T) {
	for text, want := range map[string]uint64{
		"0": 0, "64": 64, "7B": 7, "4K": 4096, "4k": 4096, "4KiB": 4096, "1MiB": 1 << 20, "1G": 1 << 30,
		"2gib": 2 << 30, "4kB": 4000, "1MB": 1_000_000, "3GB": 3_000_000_000, "9007199254740993": 1<<53 + 1,
	} {
		var s Bytesize
		err := s.Set(text)
		if fits := want <= math.MaxInt; fits != (err == nil) || fits && uint64(s) != want {
			t.Errorf("%q is %d, %v; want %d", text, s, err, want)
		}
	}
	for _, text := range []string{"", "K", "-1", "1.5K", "4KK", "1T", "x", "99999999999G", "9223372036854775808",
		"18446744073709551616", "1iB", "1 K", "1,000", "+1", "1e3"} {
		var s Bytesize
		if err := s.Set(text); err == nil {
			t.Errorf("%q is taken as %d", text, s)
		}
	}
}

func TestSize(t *testing.T) {
	for n, want := range map[int64]string{
		0: "0 B", 64: "64 B", 1000: "1000 B", 4096: "4 KiB", 9000: "9000 B", 10_001: "10,001 B", 1 << 20: "1 MiB",
		3 << 29: "1536 MiB", 1 << 30: "1 GiB", 1<<20 + 1: "1,048,577 B", -4096: "-4 KiB", -1: "-1 B",
		1 << 41: "2048 GiB",
	} {
		if got := Size(n); got != want {
			t.Errorf("%d bytes are %q, want %q", n, got, want)
		}
	}
}

func TestMemory(t *testing.T) {
	for n, want := range map[int64]string{
		-4096: "-4 KiB", 0: "0 B", 4096: "4 KiB", 40960: "40 KiB", 9999 << 10: "9999 KiB", 10_000 << 10: "10 MiB",
		1 << 20: "1 MiB", 1<<20 + 4096: "1028 KiB", 10<<20 - 4096: "10 MiB", 10<<20 + 4096: "10 MiB",
		500<<20 + 1<<19: "501 MiB", 9 << 30: "9 GiB", 10 << 30: "10 GiB", 11<<30 + 1<<28: "11 GiB",
	} {
		if got := Memory(n); got != want {
			t.Errorf("%d bytes are %q, want %q", n, got, want)
		}
	}
}
