// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"strings"
	"testing"
	"time"

	"github.com/ramjet-rdma/ramjet/verbs"
)

// infiniBandConfig is a configuration with InfiniBand's links.
func infiniBandConfig(t testing.TB, credits int) Config {
	c := config(t, "window")
	c.Host.Window = 16 << 20
	c.Switch.InfiniBand, c.Switch.Credits = true, credits
	return c
}

// runWatched runs a simulation by single events, and holds after each that no receive buffer has more than its size,
// and that no port sends beyond its credits.
func runWatched(t *testing.T, s *Sim) (most int64) {
	t.Helper()
	var ports []*port
	for _, h := range s.hosts {
		ports = append(ports, h.port)
	}
	for _, w := range s.switches {
		ports = append(ports, w.ports...)
	}
	for {
		more, err := s.Run(1)
		if err != nil {
			t.Fatal(err)
		}
		if !more {
			return most
		}
		for _, p := range ports {
			for c := range p.lanes {
				l := &p.lanes[c]
				if most = max(most, l.used); l.used < 0 || l.used > l.size || l.sent > l.limit {
					t.Fatalf("%v, %s - %s, lane %d: %d of %d blocks are used, %d were sent, %d are granted",
						s.now.Duration(), p.node(), p.peer.node(), class(c).lane(), l.used, l.size, l.sent, l.limit)
				}
			}
		}
	}
}

// Links with credits lose nothing, however many send to one host, and no buffer has more than its credits: data wait at
// the hosts. In the end all credits are back.
func TestCredits(t *testing.T) {
	const credits = 32 << 10
	for _, op := range []verbs.SendOp{verbs.OpWrite, verbs.OpSend, verbs.OpRead} {
		for _, spray := range []bool{true, false} {
			c := infiniBandConfig(t, credits)
			c.Payload, c.Switch.Spray = true, spray
			var flows []Flow
			for i := range int32(6) {
				flows = append(flows, Flow{Src: i, Dst: 6, Size: 100_001, Op: op})
			}
			s, err := New(c, LeafSpine(2, 2, 4, wires), flows)
			if err != nil {
				t.Fatal(err)
			}
			if most := runWatched(t, s); most < credits/blockBytes/2 {
				t.Errorf("%v: %d blocks at most were in a buffer: the incast did not fill one", op, most)
			}
			r := s.Results()
			var lost, waited uint64
			for _, l := range r.Links {
				lost, waited = lost+l.Dropped+l.Lost+l.Corrupt, waited+l.Pauses
			}
			if r.Ended != len(flows) || s.Compared != 6*100_001 || lost > 0 || waited == 0 ||
				!spray && s.Counts.Retransmitted > 0 {
				t.Errorf("%v, spray %v: %d flows ended, %d bytes compared, %d packets lost, %d sent again, data waited for credits %d times", op, spray, r.Ended, s.Compared, lost, s.Counts.Retransmitted, waited)
			}
		}
	}
}

// A flow alone takes its ideal time: credits are back in time. With a buffer of less than a round trip they are not.
func TestCreditsAlone(t *testing.T) {
	for _, size := range []int64{1, 1024, 5 << 20} {
		s := runAll(t, infiniBandConfig(t, 64<<10), LeafSpine(2, 2, 2, wires),
			[]Flow{{Src: 0, Dst: 3, Size: size, Op: verbs.OpWrite}})
		f := s.Flows()[0]
		if slow := f.Slowdown(); slow < 0.99 || slow > 1.05 {
			t.Errorf("%d bytes: %v, ideal %v: slowdown %.3f", size, time.Duration((f.End-f.Start)/Nanosecond),
				f.Ideal.Duration(), slow)
		}
	}
	s := runAll(t, infiniBandConfig(t, minCredits), LeafSpine(2, 2, 2, wires),
		[]Flow{{Src: 0, Dst: 3, Size: 5 << 20, Op: verbs.OpWrite}})
	if slow := s.Flows()[0].Slowdown(); slow < 2 {
		t.Errorf("with a buffer of %d bytes: slowdown %.3f", minCredits, slow)
	}
}

// A link that fails loses packets, and comes back with credits for the room that is free then. So does a link with
// errors.
func TestCreditsOfLostPackets(t *testing.T) {
	lossy := wires
	lossy.Loss = 0.01
	for name, w := range map[string]Wires{"failure": wires, "errors": lossy} {
		c := infiniBandConfig(t, 16<<10)
		c.Payload, c.Host.Timeout = true, 8
		if name == "failure" {
			c.Failures = []Failure{{Kind: LinkFails, A: 8, B: 10, At: 20 * Microsecond, For: 100 * Microsecond},
				{Kind: LinkFails, A: 3, B: 8, At: 200 * Microsecond, For: 20 * Microsecond}}
			c.Switch.Reroute = 10 * Microsecond
		}
		s, err := New(c, LeafSpine(2, 2, 4, w), incast(6, 400_000, verbs.OpWrite))
		if err != nil {
			t.Fatal(err)
		}
		runWatched(t, s)
		if s.Ended != 6 || s.Compared != 6*400_000 || s.Counts.Retransmitted == 0 {
			t.Errorf("%s: %d flows ended, %d bytes compared, %d packets sent again", name, s.Ended, s.Compared,
				s.Counts.Retransmitted)
		}
	}
}

// Settings that InfiniBand does not have are errors.
func TestBadInfiniBand(t *testing.T) {
	for want, change := range map[string]func(*Config){
		"switch.credits":   func(c *Config) { c.Switch.Credits = 4096 },
		"switch.trim":      func(c *Config) { c.Switch.Trim = 1 },
		"of Ethernet: Inf": func(c *Config) { c.Failures = []Failure{{Kind: PauseStorm}} },
	} {
		c := infiniBandConfig(t, 64<<10)
		change(&c)
		if _, err := New(c, Star(2, wires), nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}
