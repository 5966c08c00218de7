// SPDX-License-Identifier: Apache-2.0

package congestion

import (
	"math"
	"testing"
	"time"

	"github.com/ramjet-rdma/ramjet/internal/base/clock"
)

// controller makes a controller of a choice for a link of so many Gb/s.
func controller(t testing.TB, choice string, gbps float64) Controller {
	t.Helper()
	c, err := Parse(choice)
	if err != nil {
		t.Fatal(err)
	}
	return c.Make(Config{Limit: 1 << 20, Packet: 1024, LineRate: gbps * 1e9})
}

func near(got, want float64) bool { return math.Abs(got-want) <= 1e-6*math.Abs(want) }

const us = clock.Time(time.Microsecond)

// The rate and alpha after each notification and each timer, by the equations of the paper: 40 Gb/s, g = 1/256, K = T =
// 55 µs, F = 5, R_AI = 40 Mb/s.
func TestDCQCNEquations(t *testing.T) {
	d := controller(t, "dcqcn", 40).(*DCQCN)
	const g = 1. / 256
	line, alpha := 40e9, 1.
	if v := d.Allows(0); v != (Verdict{Window: AnyWindow, Burst: AnyBurst}) || d.State().Rate != line {
		t.Fatalf("before any notification: %+v, %+v", v, d.State())
	}
	now := clock.Time(time.Second)
	wants := func(what string, rate, alpha float64) {
		t.Helper()
		d.Allows(now)
		if s := d.State(); !near(s.Rate, rate) || !near(s.Alpha, alpha) {
			t.Fatalf("%s: rate %v and alpha %v, want %v and %v", what, s.Rate, s.Alpha, rate, alpha)
		}
	}
	d.Notified(now)
	rate, target := line/2, line
	wants("first notification", rate, 1)

	now += 50 * us
	d.Notified(now)
	rate, target = rate/2, rate
	wants("second notification", rate, 1)

	for i := 1; i <= 5; i++ { // fast recovery
		now += 55 * us
		rate, alpha = (rate+target)/2, alpha*(1-g)
		wants("fast recovery", rate, alpha)
	}
	for range 10 { // additive increase: the byte counter has not moved
		now += 55 * us
		target += 40e6
		rate, alpha = (rate+target)/2, alpha*(1-g)
		wants("additive increase", rate, alpha)
	}
	d.Notified(now)
	target = rate
	rate *= 1 - alpha/2
	alpha = alpha*(1-g) + g
	wants("a notification with another alpha", rate, alpha)
}

// Without clamp_tgt_rate the target outlives notifications that follow each other, and fast recovery leads back to it.
// Once the timer has increased the rate, the next notification sets the target.
func TestDCQCNKeepsTarget(t *testing.T) {
	for _, clamp := range []bool{true, false} {
		choice := "dcqcn"
		if !clamp {
			choice = "dcqcn,clamp_tgt_rate=0"
		}
		d := controller(t, choice, 40).(*DCQCN)
		now := clock.Time(time.Second)
		for range 4 {
			d.Notified(now)
			now += 50 * us
		}
		want := 40e9
		if clamp {
			want = 5e9
		}
		if !near(d.target*8, want) || !near(d.rate*8, 2.5e9) {
			t.Errorf("clamp %v: a rate of %v towards %v, want 2.5e9 towards %v", clamp, d.rate*8, d.target*8, want)
		}
		now += 5 * us // the timer
		d.Allows(now)
		rate := d.rate
		if d.Notified(now); d.target != rate {
			t.Errorf("clamp %v: after an increase the target is %v, want the rate %v", clamp, d.target, rate)
		}
	}
}

// Both counters beyond their threshold are hyper increase, by R_HAI, then twice, and so on.
func TestDCQCNHyperIncrease(t *testing.T) {
	d := controller(t, "dcqcn,rpg_byte_reset=1000,rpg_threshold=1,rpg_hai_rate=100,rpg_max_rate=40000", 0).(*DCQCN)
	now := clock.Time(time.Second)
	for range 4 {
		d.Notified(now)
	}
	rate, target := d.rate, d.target
	step := func(by float64) {
		t.Helper()
		target += by / 8
		if rate = (rate + target) / 2; !near(d.rate, rate) || !near(d.target, target) {
			t.Fatalf("rate %v towards %v, want %v towards %v", d.rate, d.target, rate, target)
		}
	}
	now += 55 * us
	d.Allows(now)
	step(0) // T = 1
	d.Sent(now, 1000)
	step(0) // BC = 1
	now += 55 * us
	d.Allows(now)
	step(40e6) // T = 2: additive
	d.Sent(now, 1000)
	step(100e6) // both 2: hyper increase
	d.Sent(now, 1000)
	step(100e6) // the lesser counts
	now += 55 * us
	d.Allows(now)
	step(200e6)
}

// Sends leave at the rate, in bursts that are short in time; the rate is never below the least, and once nothing has
// been heard for long it does not limit any more, however long that was.
func TestDCQCNPaces(t *testing.T) {
	d := controller(t, "dcqcn,rpg_min_rate=100", 10).(*DCQCN)
	now := clock.Time(time.Second)
	for range 20 {
		d.Notified(now)
	}
	if s := d.State(); s.Rate != 100e6 {
		t.Fatalf("the rate is %v, want the least", s.Rate)
	}
	d.Allows(now)
	d.next = now
	d.Sent(now, 12500)
	if v := d.Allows(now); v.Next != now+1000*us || v.Burst != 1024 {
		t.Errorf("after 1 ms of bytes: %+v", v)
	}
	d.Sent(now+10_000*us, 0)
	for _, pause := range []clock.Time{clock.Time(time.Minute), clock.Time(24 * time.Hour)} {
		d.Notified(now)
		now += pause
		if v := d.Allows(now); v.Next != 0 || d.State().Rate != 10e9 {
			t.Errorf("after a pause of %v: %+v, %+v", time.Duration(pause), v, d.State())
		}
	}
}

// A rate that the user has chosen is kept to, before the first notification and when the rate is back there. The link's
// rate is not: the link itself keeps to it.
func TestDCQCNKeepsToMaxRate(t *testing.T) {
	now := clock.Time(time.Second)
	d := controller(t, "dcqcn,rpg_max_rate=1000", 10).(*DCQCN)
	paced := func(when string) {
		t.Helper()
		now += clock.Time(time.Minute)
		d.Allows(now)
		d.next = now
		d.Sent(now, 125_000)
		if v := d.Allows(now); v.Next != now+1000*us || d.State().Rate != 1e9 {
			t.Errorf("%s, 125 KB at 1 Gb/s: the next send leaves %v later, at %v b/s, want 1ms", when,
				time.Duration(v.Next-now), d.State().Rate)
		}
	}
	paced("before any notification")
	d.Notified(now)
	paced("long after one")
	d = controller(t, "dcqcn", 10).(*DCQCN)
	if d.Sent(now, 125_000); d.Allows(now).Next != 0 {
		t.Error("a queue pair is paced at the rate of its link")
	}
}

// Rates are rates of the link, and not of the room that packets take in buffers.
func TestDCQCNCountsLinkBytes(t *testing.T) {
	c, err := Parse("dcqcn,rpg_max_rate=1000")
	if err != nil {
		t.Fatal(err)
	}
	now := clock.Time(time.Second)
	d := c.Make(Config{Packet: 3000, Link: 1250}).(*DCQCN)
	d.next = now
	d.Sent(now, 3*3000)
	if v := d.Allows(now); v.Next != now+30*us || v.Burst != 6000 {
		t.Errorf("three packets with 1,250 bytes on a link of 1 Gb/s: %+v, want the next after 30 µs, and two packets at once", v)
	}
}

// Sends that leave late do not make a slow queue pair slower, as long as they are late by a few packets.
func TestDCQCNCatchesUp(t *testing.T) {
	d := controller(t, "dcqcn,rpg_max_rate=10", 10).(*DCQCN)
	now := clock.Time(time.Second)
	start, packets := now, 0
	for ; now < start+clock.Time(time.Second); packets++ {
		if next := d.Allows(now).Next; next > now {
			now = next + 900*us // a packet takes 819 µs
		}
		d.Sent(now, 1024)
	}
	if want := 10_000_000 / 8 / 1024; packets < want || packets > want+lagPackets+2 {
		t.Errorf("%d packets in a second, want %d", packets, want)
	}
	now += clock.Time(time.Second)
	for packets = 0; d.Allows(now).Next <= now; packets++ {
		d.Sent(now, 1024)
	}
	if packets > lagPackets+1 {
		t.Errorf("%d packets at once after a second of nothing, want %d at most", packets, lagPackets+1)
	}
}

// A queue pair that was not paced was not late either: the first notification slows its next packets down, as does the
// first after a time at the rate of its link.
func TestDCQCNSlowsDownAtOnce(t *testing.T) {
	d := controller(t, "dcqcn", 10).(*DCQCN)
	now := clock.Time(time.Second)
	for _, when := range []string{"the first notification", "a notification at the rate of the link"} {
		d.Sent(now, 64<<10)
		d.Notified(now)
		d.Sent(now, 125_000)
		if v, want := d.Allows(now), now+d.takes(125_000); v.Next != want || want < now+100*us {
			t.Errorf("after %s, 125 KB at %v b/s: the next send leaves %v later, want %v", when, d.State().Rate,
				time.Duration(v.Next-now), time.Duration(want-now))
		}
		now += clock.Time(time.Minute)
		d.Allows(now)
	}
}
