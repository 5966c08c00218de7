// SPDX-License-Identifier: Apache-2.0

package runnable

import "testing"

// FuzzParse holds that any contents of the system's files give numbers within bounds, or none.
func FuzzParse(f *testing.F) {
	for _, s := range []string{"", "0", "0.20 0.18 0.12 3/80 11206\n", "0-3,8,10-11\n", "0-65535,0-65535"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		if n, ok := parseLoad(text); ok && (n < 0 || n > maxThreads) {
			t.Errorf("%d threads", n)
		}
		if n, ok := parseProcessors(string(text)); ok && n < 1 {
			t.Errorf("%d processors", n)
		}
	})
}
