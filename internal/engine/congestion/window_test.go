// SPDX-License-Identifier: Apache-2.0

package congestion

import (
	"testing"
	"time"

	"github.com/ramjet-rdma/ramjet/internal/base/clock"
)

// The window halves for a notification, once in a round trip, and no further than to one send.
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

// Losses leave the window one send, unless the round trip shows a queue: then the bandwidth-delay product, or 8 KiB.
func TestWindowLost(t *testing.T) {
	for _, c := range []struct {
		shortest, last clock.Time
		arrived        int // bytes, in the shortest round trip
		want           int
	}{
		{30 * us, 30 * us, 30_000, MinWindow},        // a quiet host
		{30 * us, 1500 * us, 30_000, MinWindow},      // a peer whose processor was late
		{5000 * us, 5000 * us, 1000, MinWindow},      // a long path without a queue
		{5000 * us, 8000 * us, 1000, MinWindow},      // a short queue
		{5000 * us, 50_000 * us, 1000, 8 << 10},      // a queue, on a path that holds next to nothing
		{5000 * us, 50_000 * us, 20_000, 30_000},     // a path that holds more
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

// The first window is one send. It opens when the send arrives too fast for a slow link, as far as losses meanwhile
// would have left an open window. The first acknowledgement may be for bytes that arrived long before.
func TestWindowFirst(t *testing.T) {
	const limit, ms = 1 << 20, 1000 * us
	for _, c := range []struct {
		name    string
		arrived []int // bytes, one millisecond apart
		losses  int   // before the first of them
		want    int
	}{
		{"a fast link", []int{1000, 40_000}, 0, limit},
		{"a loss", []int{MinWindow, 1000, 40_000}, 1, limit / 2},
		{"two", []int{MinWindow, 1000, 40_000}, 2, limit / 4},
		{"a slow link", []int{MinWindow, 1000, 12_000, 12_000, 12_000, 12_000}, 1, MinWindow * 6 / 5},
		{"the first packet was lost", []int{60_000}, 1, MinWindow},
	} {
		w, now := NewWindow(limit, 0), clock.Time(time.Second)
		if got := w.Allows(now).Window; got != MinWindow {
			t.Fatalf("the first window has %d bytes", got)
		}
		w.RoundTrip(now, ms)
		for range c.losses {
			w.Lost(now)
		}
		for _, n := range c.arrived {
			w.Arrived(now, n)
			now += ms
		}
		if got := w.Allows(now).Window; got < c.want || got > c.want+c.want/8 {
			t.Errorf("%s: a window of %d bytes, want %d", c.name, got, c.want)
		}
	}
}

// In a queue that has grown for some round trips the window grows by a packet in a round trip.
func TestWindowQueued(t *testing.T) {
	const ms = 1000 * us
	w, now := NewWindow(1<<20, 0), clock.Time(time.Second)
	w.RoundTrip(now, 10*ms)
	w.Arrived(now, MinWindow)
	if got := w.Allows(now).Window; got != 4*MinWindow {
		t.Fatalf("%d bytes after the first round trip, want four sends", got)
	}
	for range queuedSamples {
		now += 20 * ms
		w.RoundTrip(now, 20*ms)
	}
	w.Arrived(now, 1)
	for range 10 {
		before := w.Allows(now).Window
		for range 4 {
			now += 5 * ms
			w.Arrived(now, before/4)
		}
		if grown := w.Allows(now).Window - before; grown > queuedGrowth {
			t.Errorf("the window has grown by %d bytes in a queue", grown)
		}
		w.RoundTrip(now, 20*ms)
	}
}
