// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/wire/ib"
)

// Trimming (Handley et al., NDP, SIGCOMM 2017; Ultra Ethernet has it too): a switch whose queue is too long for a
// packet cuts its payload, and forwards the headers before all data. So the receiver knows at once which packet is
// lost. Its network card tells the sender's, which sends it again.

// cuts reports whether a packet that leaves by out is cut.
func (w *fabricSwitch) cuts(p *packet, out *port) bool {
	return w.config.Trim > 0 && p.class == classData && p.payload > 0 &&
		out.bytes[classData]+int(p.size) > w.config.Trim
}

// padBits are the pad count in the second byte of a BTH.
const padBits = 3 << 4

// cut cuts a packet's payload, and marks the packet if it permits that: it has met a long queue.
func (p *packet) cut() {
	p.size = max(int32(p.headLen)+frameBytes+ib.ICRCLen, minFrame)
	p.payload, p.class, p.trimmed, p.marked = 0, classControl, true, p.ect
	p.data = p.data[:0] // the headers are in head
	p.head[1] &^= padBits
}

// receiveTrimmed takes headers whose payload was cut: the packet is lost.
func (h *host) receiveTrimmed(s *Sim, p *packet) {
	var header ib.BTH
	header.Decode(p.head[:p.headLen])
	q := h.qps[header.DestQP]
	if q == nil || q.remote != p.src {
		s.Strays++
		return
	}
	now, response := s.now.engine(), header.Opcode.Info().Class == ib.ClassReadResponse
	switch {
	case q.Type == verbs.UD: // it is not sent again
		return
	case p.reported && !p.response:
		q.RequestLost(now, header.PSN)
	case p.reported:
		q.ResponseLost(header.PSN)
	default:
		h.report(s, q, &header)
	}
	if p.marked || response { // the requester asks for less: the responder's window limits no responses
		h.in.BTH = header
		q.Marked(now, &h.in)
	}
	h.changed(s, q)
}

// report tells the peer's network card that a packet is lost. The report looks like a NAK, but nothing before its PSN
// is acknowledged, and it is for the one packet alone.
func (h *host) report(s *Sim, q *pair, lost *ib.BTH) {
	p := s.newPacket()
	header := ib.Packet{BTH: ib.BTH{Opcode: ib.TransportRC.Join(ib.OpAck), PKey: ib.DefaultPKey,
		DestQP: q.Attr().DestQPN, PSN: lost.PSN}}
	header.AETH.Syndrome = ib.NAK(ib.NAKPSNSequenceError)
	frame := header.Append(s.frame[:0])
	p.headLen = uint8(copy(p.head[:], frame))
	p.size, p.class = max(int32(p.headLen)+frameBytes+ib.ICRCLen, minFrame), classControl
	p.src, p.dst, p.entropy = h.num, q.remote, q.entropy
	p.trimmed, p.reported, p.response = true, true, lost.Opcode.Info().Class == ib.ClassReadResponse
	h.port.enqueue(s, p)
}
