// SPDX-License-Identifier: Apache-2.0

package check

import (
	"fmt"
	"strings"
	"time"

	"github.com/ramjet-rdma/ramjet/internal/core/observe"
	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/wire/ib"
	"github.com/ramjet-rdma/ramjet/wire/iwarp"
)

const (
	// keptPackets is how many packets of a queue pair are kept.
	keptPackets = 64
	// ladderRows is how many rows a ladder has; packets that are alike take one.
	ladderRows = 10
	// ladderWidth is the length of an arrow, in characters.
	ladderWidth = 56
	// maxCaptured is how many queue pairs of a device have their packets kept.
	maxCaptured = 256
)

// keepPackets has the last packets of a queue pair kept, if the device has packets.
func (d *Device) keepPackets(q *queuePair) {
	if len(d.known.qps) < maxCaptured {
		q.packets = observe.Keep(d.dev, q.qp.Num(), keptPackets)
	}
}

// report reports a finding with the last packets of a queue pair.
func (d *Device) report(q *queuePair, f *Finding) {
	if q == nil || q.packets == nil {
		d.c.Report(f)
		return
	}
	d.c.report(f, func() string {
		last := q.packets.Last(keptPackets)
		return ladder(&last, q.qp.Num())
	})
}

// row is a row of a ladder: packets in one direction that are alike.
type row struct {
	at    time.Time
	sent  bool
	what  string
	facts string // of the first
	count int
}

// ladder draws packets that a queue pair has sent and received: its own side is on the left.
func ladder(last *observe.Packets, n verbs.QPN) string {
	var rows []row
	for i := range last.Packets {
		p := &last.Packets[i]
		what, facts := describePacket(last.Wire, p)
		if k := len(rows) - 1; k >= 0 && rows[k].sent == p.Sent && rows[k].what == what {
			rows[k].count++
			continue
		}
		rows = append(rows, row{time.Unix(0, p.At), p.Sent, what, facts, 1})
	}
	if len(rows) == 0 {
		return ""
	}
	var b strings.Builder
	fmt.Fprintf(&b, "  The last packets of queue pair 0x%06x, which is on the left:\n", uint32(n))
	for _, r := range rows[max(0, len(rows)-ladderRows):] {
		text := r.what + r.facts
		if r.count > 1 {
			text += fmt.Sprintf("  ×%d", r.count)
		}
		line := strings.Repeat("─", max(0, ladderWidth-len([]rune(text))))
		arrow := "├── " + text + " " + line + "▶│"
		if !r.sent {
			arrow = "│◀" + line + " " + text + " ──┤"
		}
		fmt.Fprintf(&b, "    %s %s\n", r.at.Format("15:04:05.000000"), arrow)
	}
	return b.String()
}

// describePacket returns the name of a packet, and its numbers.
func describePacket(wire observe.Wire, p *observe.Packet) (what, facts string) {
	if wire == observe.IWARP {
		var h iwarp.Header
		if !h.Decode(p.Head) {
			return "segment", ""
		}
		what = h.Opcode.String()
		if h.Tagged {
			return what, fmt.Sprintf("  STag 0x%x  %d B", uint32(h.STag), p.Length-h.Len())
		}
		return what, fmt.Sprintf("  MSN %d  %d B", h.MSN, p.Length-h.Len())
	}
	var bth ib.Packet
	whole := make([]byte, max(p.Length-ib.ICRCLen, 0)) // the payload is not kept
	copy(whole, p.Head)
	err := bth.Decode(whole)
	what = bth.Opcode.String()
	switch {
	case err != nil && len(p.Head) < ib.BTHLen:
		return "packet", ""
	case bth.Opcode.Info().Headers&ib.HasAETH != 0 && !bth.AETH.Syndrome.IsACK():
		what = bth.AETH.Syndrome.String()
	}
	facts = fmt.Sprintf("  PSN %d", bth.PSN)
	if len(bth.Payload) > 0 {
		facts += fmt.Sprintf("  %d B", len(bth.Payload))
	}
	return what, facts
}
