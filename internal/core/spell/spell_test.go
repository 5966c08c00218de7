// SPDX-License-Identifier: Apache-2.0

package spell

import (
	"strings"
	"testing"
)

func TestDistance(t *testing.T) {
	for pair, n := range map[[2]string]int{{"", ""}: 0, {"a", ""}: 1, {"rcoe", "roce"}: 1, {"roce", "roce1"}: 1,
		{"shm", "kernel"}: 6, {strings.Repeat("a", 65), strings.Repeat("a", 65)}: 65} {
		if d := distance(pair[0], pair[1]); d != n {
			t.Errorf("%q: %d", pair, d)
		}
	}
}

func TestNearest(t *testing.T) {
	words := []string{"loss", "Delay", "up"}
	for _, c := range []struct {
		w, want string
		edits   int
	}{{"los", "loss", 2}, {"DELYA", "Delay", 1}, {"dlya", "", 1}, {"xx", "", 2}, {"", "", 2}, {"loss", "loss", 0}} {
		if got := Nearest(c.w, words, c.edits); got != c.want {
			t.Errorf("%q: %q, want %q", c.w, got, c.want)
		}
	}
}
