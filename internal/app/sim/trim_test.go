// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"strings"
	"testing"

	"github.com/ramjet-rdma/ramjet/verbs"
)

// Switches that trim drop nothing in an incast: each packet that is cut is sent again, by itself, and all bytes arrive,
// with paths by packet too. No gap in sequence is taken for a loss, and nobody waits for a timeout.
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
			t.Logf("%v, %v: %d trimmed, %d again, %d sequence errors, %d timeouts, in %v", cc, op, trimmed, s.Counts.Retransmitted, s.Counts.SequenceErrors, s.Counts.Timeouts, s.now.Duration())
			if trimmed == 0 || dropped > 0 || longest > c.Switch.Trim || s.Compared != senders*size {
				t.Errorf("%v, %v: %d packets trimmed, %d dropped, longest queue %d bytes, %d bytes compared", cc, op, trimmed, dropped, longest, s.Compared)
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
