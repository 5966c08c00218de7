// SPDX-License-Identifier: Apache-2.0

package ibta

import (
	"github.com/ramjet-rdma/ramjet/internal/base/clock"
	"github.com/ramjet-rdma/ramjet/internal/engine/congestion"
	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/wire/ib"
)

// HostControl makes the congestion control for all queue pairs to one host together. If each has its own control, it
// is the window: they still share the peer's socket buffer.
func (d *Device) HostControl() congestion.Controller {
	choice := d.congestion()
	if choice.PerQP {
		return congestion.NewOpenWindow(d.Limits.Window)
	}
	cfg := congestion.Config{Limit: d.Limits.Window}
	if d.LineRate != nil {
		cfg.LineRate = d.LineRate(1)
	}
	return choice.Make(cfg)
}

func (d *Device) congestion() *congestion.Choice {
	if d.Congestion == nil {
		return defaultChoice
	}
	return d.Congestion
}

var defaultChoice = congestion.Default()

// SetCongestion chooses q's congestion control before it is connected; nil: the device's.
func (q *QP) SetCongestion(c *congestion.Choice) { q.choice = c }

func (q *QP) congestion() *congestion.Choice {
	if q.choice != nil {
		return q.choice
	}
	return q.Device.congestion()
}

// controlOwn gives q a congestion control of its own, if it is chosen, for a new path.
func (q *QP) controlOwn() {
	q.share.own = nil
	if c := q.congestion(); c.PerQP && q.reliable() {
		cfg := congestion.Config{Limit: q.Device.Limits.Window, Packet: q.share.packet}
		if n := q.Device.Limits.LinkOverhead; n != 0 {
			cfg.Link = q.mtu() + n
		}
		if q.Device.LineRate != nil {
			cfg.LineRate = q.Device.LineRate(q.Port().Num)
		}
		g := newRegulator(c.Make(cfg))
		q.share.own = &g
	}
}

// Telemetry hands q's congestion control the records that switches wrote into a request of q's that is acknowledged now
// ([congestion.Telemeter]). It precedes the acknowledgement.
func (q *QP) Telemetry(now clock.Time, hops []congestion.Hop) {
	if own := q.share.own; own != nil && q.av != nil {
		if t, ok := own.control.(congestion.Telemeter); ok {
			t.Telemetry(now, hops)
			q.av.Flow.ask(now, &q.share)
		}
	}
}

// ect0 permits marks in a packet: ECT(0) (RFC 3168 section 5).
const ect0 = 2

// permitMarks sets the ECN field of an address vector, if q's congestion control hears of marks and the program has not
// set it. Its DSCP is the program's.
func (q *QP) permitMarks(to *verbs.AHAttr) {
	if q.congestion().ECT && q.reliable() && to.TrafficClass&3 == 0 {
		to.TrafficClass |= ect0
	}
}

// cnpState is the congestion notification that a queue pair owes its peer.
type cnpState struct {
	owed  bool
	again clock.Time // no other before
}

// Marked tells q that p, which it has just taken, had met congestion ([Arrival]). Its sender gets a CNP (IBTA annex
// A17.9.3), unless it is a datagram: nothing slows datagrams down. Responses to READs are for q itself to slow down: it
// asks for less.
func (q *QP) Marked(now clock.Time, p *ib.Packet) {
	q.lane.Counters.Marked++
	q.Counts.Marked++
	if q.av == nil || !q.reliable() {
		return
	}
	if p.Opcode.Info().Class == ib.ClassReadResponse {
		q.av.Flow.marked(now, &q.share)
	}
	if n := &q.resp.cnp; now >= n.again {
		n.owed, n.again = true, now+q.congestion().NotifyInterval()
	}
}

// appendCNP appends the CNP that is owed.
func (q *QP) appendCNP(b *Batch) {
	h := &q.lane.header
	h.BTH = ib.BTH{Opcode: ib.CNP, PKey: q.PKey(), DestQP: q.Attr().DestQPN, BECN: true}
	if !b.fits(q.av, packetSize(h.Opcode, cnpReserved), h.DestQP) {
		return
	}
	b.addReserved(q.av, h)
	q.resp.cnp.owed = false
	q.lane.Counters.CNPSent++
	q.Counts.SentCNPs++
	q.lane.Counters.SentPackets++
}

// handleCNP takes the peer's CNP.
func (q *QP) handleCNP(now clock.Time, p *ib.Packet) Reason {
	switch {
	case !q.reliable():
		return DropTransport
	case !p.PKey.Match(q.PKey()):
		return DropPKey
	case q.State() < verbs.StateRTS:
		return DropGhost
	}
	q.lane.Counters.CNPReceived++
	q.Counts.RecvCNPs++
	q.av.Flow.notified(now, &q.share)
	return Taken
}
