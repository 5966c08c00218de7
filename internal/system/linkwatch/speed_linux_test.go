// SPDX-License-Identifier: Apache-2.0

package linkwatch

import "testing"

func TestSpeed(t *testing.T) {
	for _, c := range []struct {
		text string
		want int64
	}{
		{"10000\n", 10000}, {"1000", 1000}, {"-1\n", 0}, {"4294967295\n", 0}, {"", 0}, {"fast\n", 0},
	} {
		if got := parseSpeed(c.text); got != c.want {
			t.Errorf("%q: %d Mbit/s, want %d", c.text, got, c.want)
		}
	}
	for _, name := range []string{"", "lo", "no such interface", "../lo"} {
		if got := Speed(name); got != 0 {
			t.Errorf("interface %q: %d Mbit/s", name, got)
		}
	}
}
