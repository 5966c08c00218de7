// SPDX-License-Identifier: Apache-2.0

package ib

import (
	"net/netip"
	"testing"
	"time"
)

func TestPSN(t *testing.T) {
	for _, c := range []struct {
		p, q PSN
		sub  int
	}{
		{0, 0, 0},
		{1, 0, 1},
		{0, 1, -1},
		{0, PSNMask, 1},
		{PSNMask, 0, -1},
		{1<<23 - 1, 0, 1<<23 - 1},
		{1 << 23, 0, -1 << 23},
		{0, 1 << 23, -1 << 23},
		{5, 0xfffff0, 21},
	} {
		if got := c.p.Sub(c.q); got != c.sub {
			t.Errorf("%#x.Sub(%#x) = %d, want %d", c.p, c.q, got, c.sub)
		}
		if got := c.q.Add(c.sub); got != c.p {
			t.Errorf("%#x.Add(%d) = %#x, want %#x", c.q, c.sub, got, c.p)
		}
		if got := c.p.Before(c.q); got != (c.sub < 0) {
			t.Errorf("%#x.Before(%#x) = %v", c.p, c.q, got)
		}
		if got := c.p.After(c.q); got != (c.sub > 0) {
			t.Errorf("%#x.After(%#x) = %v", c.p, c.q, got)
		}
	}
	if got := PSNMask.Next(); got != 0 {
		t.Errorf("the last number's Next is %#x", got)
	}
}

func TestGID(t *testing.T) {
	for _, c := range []struct{ addr, gid string }{
		{"10.9.0.1", "0000:0000:0000:0000:0000:ffff:0a09:0001"},
		{"fd09::1", "fd09:0000:0000:0000:0000:0000:0000:0001"},
	} {
		a := netip.MustParseAddr(c.addr)
		g := GIDFromAddr(a)
		if g.String() != c.gid {
			t.Errorf("%s: %s, want %s", c.addr, g, c.gid)
		}
		if g.Addr() != a {
			t.Errorf("%s comes back as %s", c.addr, g.Addr())
		}
	}
	if g := GIDFromAddr(netip.Addr{}); g != (GID{}) {
		t.Errorf("no address gives %s", g)
	}
	if GIDFromAddr(netip.MustParseAddr("fe80::1%eth0")) != GIDFromAddr(netip.MustParseAddr("fe80::1")) {
		t.Error("the zone is part of the GID")
	}
}

func TestPKeyMatch(t *testing.T) {
	for _, c := range []struct {
		k, l PKey
		want bool
	}{
		{0xffff, 0xffff, true},
		{0xffff, 0x7fff, true},
		{0x7fff, 0xffff, true},
		{0x7fff, 0x7fff, false}, // two limited members
		{0x8001, 0x8002, false},
		{0x8000, 0x8000, false}, // the invalid key
	} {
		if got := c.k.Match(c.l); got != c.want {
			t.Errorf("%#x.Match(%#x) = %v", c.k, c.l, got)
		}
	}
}

func TestSyndrome(t *testing.T) {
	for _, c := range []struct {
		s             Syndrome
		raw           uint8
		ack, rnr, nak bool
		text          string
	}{
		{Acknowledge(CreditsUnlimited), 0x1f, true, false, false, "ACK"},
		{Acknowledge(CreditCodeFor(6)), 0x05, true, false, false, "ACK, 6 credits"},
		{RNRNAK(12), 0x2c, false, true, false, "RNR NAK, 640µs"},
		{NAK(NAKPSNSequenceError), 0x60, false, false, true, "NAK, PSN sequence error"},
		{NAK(NAKInvalidRequest), 0x61, false, false, true, "NAK, invalid request"},
		{NAK(NAKRemoteAccessError), 0x62, false, false, true, "NAK, remote access error"},
		{NAK(NAKRemoteOperationalError), 0x63, false, false, true, "NAK, remote operational error"},
		{NAK(NAKInvalidRDRequest), 0x64, false, false, true, "NAK, invalid RD request"},
		{0x40, 0x40, false, false, false, "reserved syndrome 0x40"},
		{0x80, 0x80, false, false, false, "reserved syndrome 0x80"},
	} {
		if uint8(c.s) != c.raw || c.s.IsACK() != c.ack || c.s.IsRNR() != c.rnr || c.s.IsNAK() != c.nak ||
			c.s.String() != c.text {
			t.Errorf("%#02x %v: want %#02x %q", uint8(c.s), c.s, c.raw, c.text)
		}
	}
	if c := NAK(NAKRemoteAccessError).Code(); c != NAKRemoteAccessError {
		t.Errorf("the NAK's code is %v", c)
	}
	if r := RNRNAK(31).Timer(); r != 31 {
		t.Errorf("the RNR NAK's timer is %d", r)
	}
}

func TestCredits(t *testing.T) {
	// The table of section 9.7.7.2.
	want := []int{
		0, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024,
		1536, 2048, 3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768, -1,
	}
	for c, n := range want {
		if got := CreditCode(c).Count(); got != n {
			t.Errorf("code %d: %d credits, want %d", c, got, n)
		}
		if n < 0 {
			continue
		}
		if got := CreditCodeFor(n); got != CreditCode(c) {
			t.Errorf("%d credits: code %d, want %d", n, got, c)
		}
	}
	if got := CreditCodeFor(5); got != 4 {
		t.Errorf("5 credits: code %d, want 4, which promises no more than there are", got)
	}
	if got := CreditCodeFor(1 << 20); got != 30 {
		t.Errorf("a million credits: code %d, want 30", got)
	}
}

func TestRNRTimer(t *testing.T) {
	if d := RNRTimer(0).Duration(); d != 655360*time.Microsecond {
		t.Errorf("code 0 is %v", d)
	}
	for c := RNRTimer(1); c < 32; c++ {
		d := c.Duration()
		if c > 1 && d <= (c-1).Duration() {
			t.Errorf("code %d is not longer than the one before", c)
		}
		// From code 4 on, each is twice the one two codes before it.
		if c >= 5 && d != 2*(c-2).Duration() {
			t.Errorf("code %d is %v", c, d)
		}
		if got := RNRTimerFor(d); got != c {
			t.Errorf("RNRTimerFor(%v) = %d, want %d", d, got, c)
		}
		if got := RNRTimerFor(d - 1); got != c {
			t.Errorf("RNRTimerFor(%v) = %d, want %d", d-1, got, c)
		}
	}
	for _, c := range []struct {
		d    time.Duration
		want RNRTimer
	}{{0, 1}, {-1, 1}, {491521 * time.Microsecond, 0}, {655360 * time.Microsecond, 0}, {time.Hour, 0}} {
		if got := RNRTimerFor(c.d); got != c.want {
			t.Errorf("RNRTimerFor(%v) = %d, want %d", c.d, got, c.want)
		}
	}
}
