// SPDX-License-Identifier: Apache-2.0

package congestion

import (
	"testing"
	"time"

	"github.com/ramjet-rdma/ramjet/internal/base/clock"
)

// The window halves for a notification, once in a round trip, and no further than to what one send needs.
func TestWindowNotified(t *testing.T) {
	const rtt = clock.Time(200 * time.Microsecond)
	w := NewWindow(1 << 20)
	size := func() int { return w.Allows(0).Window }
	now := clock.Time(1)
	w.RoundTrip(now, rtt)
	for _, want := range []int{1 << 19, 1 << 18, 1 << 17, 1 << 16, 1 << 16} {
		for i := range 4 {
			if w.Notified(now + clock.Time(i)*rtt/4); size() != want {
				t.Fatalf("%d bytes, want %d", size(), want)
			}
		}
		now += rtt
	}
}
