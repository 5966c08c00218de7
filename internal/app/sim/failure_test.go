// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"strings"
	"testing"

	"github.com/ramjet-rdma/ramjet/verbs"
)

// balanced holds that switches hold nothing when nothing is on its way, and that their ports count the same.
func balanced(t *testing.T, s *Sim) {
	t.Helper()
	for _, w := range s.switches {
		shared, queued := 0, 0
		for _, p := range w.ports {
			shared += p.held
			queued += p.bytes[classControl] + p.bytes[classData]
			if p.headroom < 0 || p.held < 0 {
				t.Errorf("%s: a port holds %d bytes, and %d of headroom", w.name, p.held, p.headroom)
			}
		}
		if shared != w.used || queued == 0 && shared != 0 {
			t.Errorf("%s counts %d bytes, its ports %d, and %d are queued", w.name, w.used, shared, queued)
		}
	}
}

// lost returns how many packets failures took.
func lost(s *Sim) (n uint64) {
	for _, l := range s.Results().Links {
		n += l.Lost
	}
	return n
}

// All bytes of flows arrive in spite of failures of links and of switches: lost packets are sent again, by other paths
// once there are some, and by the old ones when they are back.
func TestFailures(t *testing.T) {
	// Leaves 0 and 1 are nodes 4 and 5, the spines 6 and 7.
	for name, failures := range map[string][]Failure{
		"link":          {{Kind: LinkFails, A: 4, B: 6, At: 100 * Microsecond, For: 3 * Millisecond}},
		"link for ever": {{Kind: LinkFails, A: 7, B: 5, At: 100 * Microsecond}},
		"switch":        {{Kind: SwitchFails, A: 6, At: 100 * Microsecond, For: Millisecond}},
		"both switches": {{Kind: SwitchFails, A: 6, At: 100 * Microsecond, For: 2 * Millisecond},
			{Kind: SwitchFails, A: 7, At: 150 * Microsecond, For: 2 * Millisecond}},
		"link of a host": {{Kind: LinkFails, A: 3, B: 5, At: 100 * Microsecond, For: Millisecond}},
		"flapping": {{Kind: LinkFails, A: 0, B: 4, At: 100 * Microsecond, For: Microsecond / 2},
			{Kind: LinkFails, A: 0, B: 4, At: 110 * Microsecond, For: 10 * Microsecond},
			{Kind: SwitchFails, A: 4, At: 115 * Microsecond, For: 10 * Microsecond}},
	} {
		for _, op := range []verbs.SendOp{verbs.OpWrite, verbs.OpSend, verbs.OpRead} {
			c := config(t, "window")
			c.Payload, c.Failures, c.Host.Timeout, c.Switch.Reroute = true, failures, 8, 500*Microsecond
			var flows []Flow
			for i := range int32(4) {
				flows = append(flows, Flow{Src: i, Dst: (i + 2) % 4, Size: 2 << 20, Op: op}) // all cross the spines
			}
			s := runAll(t, c, LeafSpine(2, 2, 2, wires), flows)
			if lost(s) == 0 || s.Counts.Retransmitted == 0 || s.Compared != 4*2<<20 {
				t.Errorf("%s, %v: %d packets lost, %d sent again, %d bytes compared", name, op, lost(s),
					s.Counts.Retransmitted, s.Compared)
			}
			balanced(t, s)
		}
	}
}

// Switches choose a failed path until they learn of the failure, and no longer.
func TestReroute(t *testing.T) {
	c := config(t, "window")
	c.Host.Timeout, c.Switch.Reroute, c.Switch.Spray = 8, 500*Microsecond, true
	c.Failures = []Failure{{Kind: LinkFails, A: 4, B: 6, At: 100 * Microsecond, For: 2 * Millisecond}}
	s, err := New(c, LeafSpine(2, 2, 2, wires), []Flow{{Src: 0, Dst: 2, Size: 1 << 40, Op: verbs.OpWrite}})
	if err != nil {
		t.Fatal(err)
	}
	until := func(at Time) uint64 {
		for s.now < at {
			if _, err := s.Run(1); err != nil {
				t.Fatal(err)
			}
		}
		return lost(s)
	}
	if n := until(99 * Microsecond); n != 0 {
		t.Errorf("%d packets were lost before the failure", n)
	}
	before, after := until(601*Microsecond), until(2*Millisecond)
	if before == 0 || after != before {
		t.Errorf("%d packets were lost until switches chose another path, %d after", before, after-before)
	}
	link := s.switches[0].ports[2]
	sent := link.Stats.Packets
	if until(3 * Millisecond); link.Stats.Packets == sent {
		t.Error("the link was not used after it had come back")
	}
}

// A flow whose host is gone for longer than it retries ends with an error.
func TestHostGone(t *testing.T) {
	c := config(t, "window")
	c.Host.Timeout, c.Host.RetryCount = 6, 3
	c.Failures = []Failure{{Kind: LinkFails, A: 1, B: 2, At: 10 * Microsecond}}
	s, err := New(c, Star(2, wires), []Flow{{Src: 0, Dst: 1, Size: 1 << 20, Op: verbs.OpWrite}})
	if err != nil {
		t.Fatal(err)
	}
	more, err := s.Run(1 << 20)
	if f := s.Flows()[0]; more || err != nil || f.Status != verbs.StatusRetryExceeded {
		t.Errorf("%v, %v: the flow ended with %v", more, err, f.Status)
	}
}

// A host that has its switch pause for ever stops flows that have nothing to do with it, until the watchdog looks.
func TestPauseStorm(t *testing.T) {
	for _, w := range []Watchdog{{}, {Detect: 200 * Microsecond, Restore: 100 * Microsecond},
		{Detect: 200 * Microsecond, Restore: 100 * Microsecond, Forward: true}} {
		c := config(t, "window")
		c.Host.Window, c.Switch.Buffer, c.Switch.Watchdog, c.Until = 16<<20, 2<<20, w, 50*Millisecond
		c.Host.Timeout = 10
		c.Failures = []Failure{{Kind: PauseStorm, A: 3, At: 100 * Microsecond, For: 6 * Millisecond}}
		// Hosts 0 and 1 are at one switch. Host 0 sends to the host that pauses, and host 1 to another, by the same
		// link.
		s, err := New(c, Dumbbell(2, wires), []Flow{{Src: 0, Dst: 3, Size: 32 << 20, Op: verbs.OpWrite},
			{Src: 1, Dst: 2, Size: 8 << 20, Op: verbs.OpWrite, Start: 200 * Microsecond}})
		if err != nil {
			t.Fatal(err)
		}
		if more, err := s.Run(1 << 30); more || err != nil {
			t.Fatal(more, err)
		}
		port := s.hosts[3].port.peer
		culprit, victim := s.Flows()[0], s.Flows()[1]
		if w.Detect == 0 && (victim.End < 6*Millisecond || port.Stats.Storms != 0) {
			t.Errorf("without a watchdog the victim ended at %v; %d storms", victim.End.Duration(), port.Stats.Storms)
		}
		if w.Detect > 0 && (victim.End == 0 || victim.End > 2*Millisecond || port.Stats.Storms != 1) {
			t.Errorf("with the watchdog %+v the victim ended at %v; %d storms", w, victim.End.Duration(),
				port.Stats.Storms)
		}
		if (port.Stats.Dropped > 0) != (w.Detect > 0 && !w.Forward) {
			t.Errorf("with the watchdog %+v %d packets were dropped", w, port.Stats.Dropped)
		}
		if culprit.End == 0 || culprit.Status != verbs.StatusSuccess || port.storm && !w.Forward {
			t.Errorf("with the watchdog %+v the flow that was paused ended at %v, %v; the storm lasts: %v", w,
				culprit.End.Duration(), culprit.Status, port.storm)
		}
	}
}

// A failure of something that is not there is an error that says so.
func TestBadFailures(t *testing.T) {
	for want, f := range map[string]Failure{
		"no link between host 0 and host 1":       {A: 0, B: 1},
		"no link between switch 0 and switch 1":   {A: 4, B: 5},
		"there is no node 99":                     {A: 0, B: 99},
		"there is no node -1":                     {Kind: SwitchFails, A: -1},
		"host 3 is no switch":                     {Kind: SwitchFails, A: 3},
		"comes from a host, and switch 1 is none": {Kind: PauseStorm, A: 5},
		"neither may be negative":                 {A: 4, B: 6, For: -1},
	} {
		c := config(t, "window")
		c.Failures = []Failure{f}
		if _, err := New(c, LeafSpine(2, 2, 2, wires), nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %q", f, err, want)
		}
	}
}
