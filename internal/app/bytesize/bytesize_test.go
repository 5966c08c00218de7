// SPDX-License-Identifier: Apache-2.0

package bytesize

import "testing"

func TestSize(t *testing.T) {
	for text, want := range map[string]Size{"0": 0, "64": 64, "4K": 4096, "4k": 4096, "1MiB": 1 << 20, "1G": 1 << 30, "7B": 7} {
		var s Size
		if err := s.Set(text); err != nil || s != want {
			t.Errorf("%q is %d, %v; want %d", text, s, err, want)
		}
	}
	for _, text := range []string{"", "K", "-1", "1.5K", "4KK", "1T", "x", "99999999999G", "1iB"} {
		var s Size
		if err := s.Set(text); err == nil {
			t.Errorf("%q is taken as %d", text, s)
		}
	}
	for n, want := range map[int]string{0: "0 B", 64: "64 B", 1000: "1000 B", 4096: "4 KiB", 1 << 20: "1 MiB", 3 << 29: "1536 MiB", 1 << 30: "1 GiB"} {
		if got := Text(n); got != want {
			t.Errorf("%d bytes are %q, want %q", n, got, want)
		}
	}
}
