// SPDX-License-Identifier: Apache-2.0

package loopback_test

import (
	"net/netip"
	"testing"

	"github.com/ramjet-rdma/ramjet/internal/testkit/loopback"
)

// TestNext takes more addresses than differ in their last byte: each one is new.
func TestNext(t *testing.T) {
	seen := make(map[netip.Addr]bool)
	for range 1000 {
		a := loopback.Next()
		if seen[a] || !a.IsLoopback() {
			t.Fatalf("%v, which another test has", a)
		}
		seen[a] = true
	}
}
