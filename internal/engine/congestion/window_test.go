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
	w := NewOpenWindow(1 << 20)
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

// Losses leave the window one send, unless the round trip shows a queue: then what the path holds, or 8 KiB.
func TestWindowLost(t *testing.T) {
	for _, c := range []struct {
		shortest, last clock.Time
		arrived        int // bytes, in the shortest round trip
		want           int
	}{
		{30 * us, 30 * us, 30_000, MinWindow},        // a quiet host
		{30 * us, 1500 * us, 30_000, MinWindow},      // one whose processor was late
		{5000 * us, 5000 * us, 1000, MinWindow},      // a long path without a queue
		{5000 * us, 8000 * us, 1000, MinWindow},      // a short queue
		{5000 * us, 50_000 * us, 1000, 8 << 10},      // a queue, on a path that holds next to nothing
		{5000 * us, 50_000 * us, 20_000, 30_000},     // one that holds more
		{5000 * us, 50_000 * us, 200_000, MinWindow}, // or more than one send
	} {
		w := NewOpenWindow(1 << 20)
		now := clock.Time(time.Second)
		w.RoundTrip(now, c.shortest)
		w.Arrived(now, 0)
		now += c.shortest
		w.Arrived(now, c.arrived)
		w.RoundTrip(now, c.last)
		for range 10 {
			w.Lost(now)
		}
		if got := w.Allows(now).Window; got != c.want {
			t.Errorf("%+v: a window of %d bytes", c, got)
		}
		if w.Silent(now); w.Allows(now).Window > c.want {
			t.Errorf("%+v: silence opened the window to %d bytes", c, w.Allows(now).Window)
		}
	}
}
