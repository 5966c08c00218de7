// SPDX-License-Identifier: Apache-2.0

package perf

import (
	"errors"
	"strings"
	"testing"
	"time"
)

// Where cubic is not permitted, its columns and iWARP's figures with it are left out, and
// nothing else.
func TestPermitted(t *testing.T) {
	all := Figures(time.Second)
	refused := errors.New("not permitted")
	rest, reasons := Permitted(all, func(congestion string) error {
		if congestion != "cubic" {
			t.Errorf("asked for %q", congestion)
		}
		return refused
	})
	if len(reasons) != 1 || reasons[0] != refused {
		t.Errorf("reasons: %v", reasons)
	}
	had := make(map[string]Figure)
	for _, f := range rest {
		had[f.Name] = f
	}
	for _, f := range all {
		got, kept := had[f.Name]
		if want := !strings.Contains(f.Device, "cubic"); kept != want {
			t.Errorf("%s: kept %v, want %v", f.Name, kept, want)
			continue
		}
		var want []string
		for _, r := range f.Against {
			if !strings.Contains(r.Name, "cubic") {
				want = append(want, r.Name)
			}
		}
		for i, r := range got.Against {
			if i >= len(want) || r.Name != want[i] {
				t.Errorf("%s: beside %s, want %q", f.Name, r.Name, want)
			}
		}
		if kept && len(got.Against) != len(want) {
			t.Errorf("%s: %d references, want %d", f.Name, len(got.Against), len(want))
		}
	}
	whole, reasons := Permitted(all, func(string) error { return nil })
	if len(whole) != len(all) || len(reasons) != 0 {
		t.Errorf("%d of %d figures where all is permitted, %v", len(whole), len(all), reasons)
	}
}
