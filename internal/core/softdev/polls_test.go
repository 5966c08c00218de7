// SPDX-License-Identifier: Apache-2.0

package softdev

import (
	"testing"
	"time"

	"github.com/ramjet-rdma/ramjet/internal/base/clock"
)

// TestPollBeforeSleep holds that the poll which a program makes after it asked for an event, and
// which may move a lot, is no sign that it goes on polling; many are.
func TestPollBeforeSleep(t *testing.T) {
	d := &Lane{start: time.Now().Add(-time.Hour)}
	p := &d.polls.pollers
	busy := func() bool { return p.busy(clock.Time(p.recent.Load())) } // at the time of the last poll
	for range 3 {
		for range 3 * busyPolls {
			d.polled(1)
		}
		if !busy() {
			t.Fatal("a program that polls is not taken for one")
		}
		p.sleep()
		for range 3 {
			d.polledRarely()
			d.polled(longPoll)
		}
		if !p.asleep() {
			t.Error("a poll after the program said that it sleeps is taken for many")
		}
	}
}

// TestFewPolls holds that a program whose polls each find much, of which few fit into a grace period, is left alone,
// and one that has ceased to poll is not.
func TestFewPolls(t *testing.T) {
	d := &Lane{start: time.Now().Add(-time.Hour)}
	p := &d.polls.pollers
	for range 3 * busyPolls {
		d.polled(1)
	}
	now := d.Now()
	for range 10 {
		for range gracePolls {
			now += clock.Time(GracePeriod) / gracePolls
			p.at(now)
			p.count.Add(1)
		}
		if !p.busy(now + 1) {
			t.Fatal("a program that polls and finds much is not taken for one that polls")
		}
	}
	p.count.Add(gracePolls)
	if p.busy(now + recently) {
		t.Error("a program that has ceased to poll is taken for one that polls")
	}
	p.sleep()
	if p.at(now + recently); !p.asleep() {
		t.Error("a poll after the program said that it sleeps is taken for many")
	}
}

// TestYields holds that a goroutine which sleeps again and again calls Go's scheduler in time, and not for each sleep.
func TestYields(t *testing.T) {
	const monitor = clock.Time(10 * time.Millisecond) // after which Go's takes the processor away
	var s sleep
	last, calls := clock.Time(0), 0
	const step = clock.Time(50 * time.Microsecond)
	for now := clock.Time(time.Hour); now < clock.Time(time.Hour+time.Second); now += step {
		if !s.yields(now) {
			if now-last >= monitor {
				t.Fatalf("no call for %v", time.Duration(now-last))
			}
			continue
		}
		last = now
		calls++
	}
	if most := int(clock.Time(time.Second)/yieldEvery) + 1; calls > most {
		t.Errorf("%d calls in a second, want %d at most", calls, most)
	}
}
