// SPDX-License-Identifier: Apache-2.0

package ibta

import (
	"time"

	"github.com/ramjet-rdma/ramjet/internal/core/clock"
	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/wire/ib"
)

// Congestion is the congestion control of what goes to one host: the engine reports what becomes of
// that, and asks how much may be in flight and when the next send may leave. A [Flow] has one. It is
// as pure as the engine.
//
// Bytes count as they take room in the peer's buffer: with what a packet costs beyond its payload
// ([Limits]). Of a READ, the request counts when it is sent, and the data when they arrive.
type Congestion interface {
	// Sent: bytes leave in one send.
	Sent(now clock.Time, bytes int)
	// Arrived: bytes are acknowledged, or have arrived as responses.
	Arrived(now clock.Time, bytes int)
	// RoundTrip: a packet that was sent only once was acknowledged after took.
	RoundTrip(now, took clock.Time)
	// Lost: the peer misses something of what a queue pair has in flight, or has no receive for it.
	// It is called once for all that was in flight then.
	Lost(now clock.Time)
	// Silent: nothing of what a queue pair has in flight was acknowledged in time.
	Silent(now clock.Time)
	// Notified: something in flight, or a response, has met a router with a long queue.
	Notified(now clock.Time)

	// Allows returns how many bytes may be in flight, and how many of responses to READs; if
	// nothing is, one send may leave whatever it returns. No send leaves before next. The engine
	// calls it after the other methods.
	Allows() (window int, next clock.Time)
}

// cnpInterval is the shortest time between two notifications that a queue pair sends. Annex A17.9.3
// leaves it to implementations; this is what DCQCN was published with (Zhu et al., SIGCOMM 2015).
const cnpInterval = clock.Time(50 * time.Microsecond)

// cnpState is the congestion notification that a queue pair owes its peer.
type cnpState struct {
	owed  bool
	again clock.Time // no other before
}

// Marked tells q that p, which it has just taken, had met congestion ([Arrival]).
// Its sender gets a CNP (IBTA annex A17.9.3), unless it is a datagram: nothing slows those down.
// Responses to READs are for q itself to slow down: it asks for less.
func (q *QP) Marked(now clock.Time, p *ib.Packet) {
	q.Device.Counters.Marked++
	if q.path == nil || !q.reliable() {
		return
	}
	if p.Opcode.Info().Class == ib.ClassReadResponse {
		q.path.Flow.notified(now)
	}
	if n := &q.resp.cnp; now >= n.again {
		n.owed, n.again = true, now+cnpInterval
	}
}

// appendCNP appends the CNP that is owed.
func (q *QP) appendCNP(b *Batch) {
	h := &q.req.header
	h.BTH = ib.BTH{Opcode: ib.CNP, PKey: q.PKey(), DestQP: q.Attr().DestQPN, BECN: true}
	if !b.fits(q.path, packetSize(h.Opcode, cnpReserved), h.DestQP) {
		return
	}
	b.addReserved(q.path, h)
	q.resp.cnp.owed = false
	q.Device.Counters.CNPSent++
	q.Device.Counters.SentPackets++
}

// handleCNP takes the peer's CNP.
func (q *QP) handleCNP(now clock.Time, p *ib.Packet) Reason {
	switch {
	case !q.reliable():
		return DropTransport
	case !p.PKey.Match(q.PKey()):
		return DropPKey
	case q.State() < verbs.RTS:
		return DropGhost
	}
	q.Device.Counters.CNPReceived++
	q.path.Flow.notified(now)
	return Taken
}
