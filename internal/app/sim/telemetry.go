// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"github.com/ramjet-rdma/ramjet/internal/base/clock"
	"github.com/ramjet-rdma/ramjet/internal/engine/congestion"
	"github.com/ramjet-rdma/ramjet/wire/ib"
)

// In-band network telemetry (INT), for congestion controls that ask for it: switches write into requests with payload
// how much their links have sent and still queue, and acknowledgements bring that back. It takes room in both. Its
// format is that of HPCC's paper, of which only the size is simulated: 2 bytes, and 8 for each of 5 hops.

const telemetryBytes = 2 + 5*8

// write has the switch of a port write into a packet that leaves by it.
func (p *packet) write(s *Sim, out *port) {
	if p.telemetry {
		st := &out.Stats
		p.hops = append(p.hops, congestion.Hop{At: s.now.engine(), Sent: st.Bytes + st.Packets*uint64(out.gap),
			Queue: out.bytes[classData], Rate: out.rate})
	}
}

// addTelemetry has switches write into a request, and an acknowledgement bring back their records.
func (h *host) addTelemetry(q *pair, p *packet, op ib.Opcode) {
	if !h.config.Congestion.Telemetry {
		return
	}
	switch class := op.Info().Class; {
	case class == ib.ClassAck:
		p.hops = append(p.hops, q.hops...)
	case p.payload == 0 || class == ib.ClassReadResponse || p.run != nil:
		return
	default:
		p.telemetry = true
	}
	p.size += telemetryBytes
}

// takeTelemetry keeps the records of switches in a request, and hands the records of an acknowledgement to the
// congestion control.
func (h *host) takeTelemetry(now clock.Time, q *pair, p *packet) {
	switch {
	case p.telemetry:
		q.hops = append(q.hops[:0], p.hops...)
	case len(p.hops) > 0:
		q.Telemetry(now, p.hops)
	}
}
