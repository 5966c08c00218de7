// SPDX-License-Identifier: Apache-2.0

package infiniband_test

import (
	"testing"
	"time"
)

// upTime is how long a subnet manager may take: only a fault exceeds it.
const upTime = 3 * time.Minute

// waitFor waits until a condition holds.
func waitFor(t testing.TB, what string, holds func() bool) {
	t.Helper()
	for late := time.Now().Add(upTime); !holds(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(late) {
			t.Fatalf("%s: not within %v", what, upTime)
		}
	}
}
