// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"testing"
	"time"

	"github.com/ramjet-rdma/ramjet/verbs"
)

// A flow of datagrams alone takes its ideal time, and arrives whole, with payload and without.
func TestDatagrams(t *testing.T) {
	for _, payload := range []bool{false, true} {
		for _, size := range []int64{0, 1, 1024, 1025, 100_001, 2 << 20} {
			c := config(t, "window")
			c.Payload = payload
			s := runAll(t, c, LeafSpine(2, 2, 2, wires),
				[]Flow{{Src: 0, Dst: 3, Size: size, Op: verbs.OpSend, UD: true, Start: Microsecond}})
			f := s.Flows()[0]
			if slow := f.Slowdown(); slow < 0.99 || slow > 1.05 || f.Delivered != size {
				t.Errorf("%d bytes, payload %v: %d arrived, in %v, ideal %v: slowdown %.3f", size, payload, f.Delivered,
					time.Duration((f.End-f.Start)/Nanosecond), f.Ideal.Duration(), slow)
			}
			if payload && s.Compared != size {
				t.Errorf("%d bytes were compared, want %d", s.Compared, size)
			}
		}
	}
}

// Datagrams that are dropped, corrupted or trimmed are gone, and nothing is sent again: each byte has arrived, or its
// packet was lost. With PFC none is dropped.
func TestLostDatagrams(t *testing.T) {
	const senders, size = 4, 100 * 1024
	lossy := wires
	lossy.Loss = 0.01
	for name, c := range map[string]struct {
		change func(*Config)
		wires  Wires
		lost   bool
	}{
		"drop":    {func(c *Config) { c.Switch.PFC, c.Switch.Buffer = false, 64<<10 }, wires, true},
		"trim":    {func(c *Config) { c.Switch.PFC, c.Switch.Trim = false, 20e3 }, wires, true},
		"corrupt": {func(c *Config) {}, lossy, true},
		"PFC":     {func(c *Config) { c.Switch.Buffer = 1 << 20 }, wires, false},
	} {
		cfg := config(t, "window")
		cfg.Payload = true
		c.change(&cfg)
		flows := incast(senders, size, verbs.OpSend)
		for i := range flows {
			flows[i].UD = true
		}
		s := runAll(t, cfg, Star(senders+1, c.wires), flows)
		var delivered, lost int64
		for _, f := range s.Flows() {
			delivered += f.Delivered
		}
		for _, l := range s.Results().Links {
			lost += int64(l.Dropped + l.Trimmed + l.Corrupt)
		}
		if delivered+1024*lost != senders*size || s.Compared != delivered || c.lost != (lost > 0) ||
			s.Counts.Retransmitted > 0 {
			t.Errorf("%s: of %d bytes %d arrived, %d packets were lost, %d bytes compared, %d packets sent again", name,
				senders*size, delivered, lost, s.Compared, s.Counts.Retransmitted)
		}
		if rows := s.Results().Sizes; len(rows) != 1 || rows[0].Arrived != float64(delivered)/(senders*size) {
			t.Errorf("%s: %+v", name, rows)
		}
	}
}
