// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"strings"
	"testing"

	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/wire/ib"
)

// Switches that trim drop nothing in an incast: each packet that is cut is sent again, by itself, and all bytes arrive,
// with paths by packet too. No gap in sequence is taken for a loss, and no queue pair waits for a timeout.
func TestTrim(t *testing.T) {
	const senders, size = 7, 300_013
	for _, cc := range []string{"window", "dcqcn", "swift,base_target=20"} {
		for _, op := range []verbs.SendOp{verbs.OpWrite, verbs.OpSend, verbs.OpRead} {
			c := config(t, cc)
			c.Payload, c.Switch.PFC, c.Switch.Spray, c.Switch.Trim = true, false, true, 20e3
			var flows []Flow
			for i := range int32(senders) {
				flows = append(flows, Flow{Src: i, Dst: 8, Size: size, Op: op})
			}
			s := runAll(t, c, LeafSpine(2, 4, 8, wires), flows)
			var trimmed, dropped uint64
			longest := 0
			for _, l := range s.Results().Links {
				trimmed, dropped = trimmed+l.Trimmed, dropped+l.Dropped
				if strings.HasPrefix(l.From, "switch") {
					longest = max(longest, l.MaxQueue)
				}
			}
			t.Logf("%v, %v: %d trimmed, %d again, %d sequence errors, %d timeouts, in %v", cc, op, trimmed,
				s.Counts.Retransmitted, s.Counts.SequenceErrors, s.Counts.Timeouts, s.now.Duration())
			if trimmed == 0 || dropped > 0 || longest > c.Switch.Trim || s.Compared != senders*size {
				t.Errorf("%v, %v: %d packets trimmed, %d dropped, longest queue %d bytes, %d bytes compared", cc, op,
					trimmed, dropped, longest, s.Compared)
			}
			if s.Counts.SequenceErrors+s.Counts.Timeouts > 0 {
				t.Errorf("%v, %v: %d sequence errors, %d timeouts", cc, op, s.Counts.SequenceErrors, s.Counts.Timeouts)
			}
			if s.Counts.Retransmitted != trimmed {
				t.Errorf("%v, %v: %d packets were sent again, %d were trimmed", cc, op, s.Counts.Retransmitted, trimmed)
			}
		}
	}
}

// Packets that were trimmed, and reports of that, are seen with headers alone and an ICRC that is right, with payload
// and without.
func TestTrimObserved(t *testing.T) {
	for _, payload := range []bool{true, false} {
		c := config(t, "window")
		c.Payload, c.Switch.PFC, c.Switch.Trim = payload, false, 20e3
		s, err := New(c, Star(5, wires), incast(4, 300_013, verbs.OpWrite))
		if err != nil {
			t.Fatal(err)
		}
		trimmed, reports := 0, 0
		if err := s.Observe("host 4", func(o *Sighting) {
			line := o.String()
			cut, report := strings.HasSuffix(line, ", trimmed"), strings.HasSuffix(line, ", lost")
			if !cut && !report {
				return
			}
			src, dst := o.Addrs()
			flow := ib.NewPseudoHeader(src, dst, true)
			b := o.Append(nil)
			if _, how := flow.Verify(b, 0); how != ib.VerifiedWhole || len(b) > maxHeader+ib.ICRCLen {
				t.Fatalf("%s: %d bytes, ICRC %v", line, len(b), how)
			}
			if cut {
				trimmed++
			} else {
				reports++
			}
		}); err != nil {
			t.Fatal(err)
		}
		if more, err := s.Run(1 << 30); more || err != nil {
			t.Fatal(more, err)
		}
		if trimmed == 0 || reports != trimmed {
			t.Errorf("payload %v: %d trimmed packets were seen, and %d reports of them", payload, trimmed, reports)
		}
	}
}
