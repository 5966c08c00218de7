// SPDX-License-Identifier: Apache-2.0

package streamdev

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"net/netip"
	"syscall"
	"time"

	"github.com/ramjet-rdma/ramjet/internal/base/clock"
	"github.com/ramjet-rdma/ramjet/internal/core/softdev"
	"github.com/ramjet-rdma/ramjet/internal/engine/rdmap"
	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/verbs/driver"
	"github.com/ramjet-rdma/ramjet/wire/ib"
)

// Queue pairs that are connected by number, as in programs for InfiniBand, connect through a port of
// their device. The one with the lower address and number sends an MPA request whose private data
// names both.
//
// Devices of one address, usually in several processes, have a slot each: the top bits of their
// queue pair numbers, and the offset of their port from RendezvousPort.
const (
	RendezvousPort  = 47910
	rendezvousMagic = "RamjetQP"
	rendezvousLen   = len(rendezvousMagic) + 16
	maxEarly        = 1024                               // requests that came before their queue pairs were ready
	redialMin       = clock.Time(time.Millisecond)       // time between attempts, doubled
	redialMax       = clock.Time(256 * time.Millisecond) // up to this
)

// rendezvous connects queue pairs by number.
type rendezvous struct {
	slot     int
	bits     int // of the numbers, that tell slots apart
	addr     netip.Addr
	listener *streamListener
	early    map[rendezvousKey]*Conn
	waiting  *softdev.HalfOpen[*Conn] // connections that came early
}

// rendezvousKey identifies two queue pairs.
type rendezvousKey struct {
	to, from verbs.QPN
	peer     netip.Addr // of from
}

func (r *rendezvous) open(d *Device) error {
	r.addr, r.early = d.net.Info(1).GIDTable[0].GID.Addr(), make(map[rendezvousKey]*Conn)
	r.waiting, r.bits = softdev.NewHalfOpen[*Conn](d.halfOpen(maxEarly)), d.carrier.SlotBits()
	for r.slot = range 1 << r.bits {
		l, err := d.listen(netip.AddrPortFrom(r.addr, uint16(RendezvousPort+r.slot)), 4096)
		if err == nil {
			l.onRequest = d.handleRendezvous
			r.listener = l
			return nil
		}
		if !errors.Is(err, syscall.EADDRINUSE) {
			return err
		}
	}
	return fmt.Errorf("ports %d to %d of %v are in use: close some of the devices that have this address: %w",
		RendezvousPort, RendezvousPort+1<<r.bits-1, r.addr, syscall.EADDRINUSE)
}

func (r *rendezvous) close() {
	if r.listener != nil {
		r.listener.acc.Close()
	}
}

// newQPN returns a random free number with the device's prefix.
func (r *rendezvous) newQPN(d *Device) verbs.QPN {
	bits := 24 - r.bits
	for {
		n := verbs.QPN(r.slot<<bits) | verbs.QPN(softdev.Random32()&(1<<bits-1))
		if n > 1 && n != ib.QPNMulticast && d.QPs[n] == nil {
			return n
		}
	}
}

// rendezvousRequest is the private data of a request.
type rendezvousRequest struct {
	typ            verbs.QPType // of both
	to, from       verbs.QPN
	toPSN, fromPSN verbs.PSN // starting PSNs, which iWARP does not use: they tell connections apart
}

func (n *rendezvousRequest) append(b []byte) []byte {
	b = append(b, rendezvousMagic...)
	typ := uint32(n.typ-verbs.RC) << 24 // none of an RC queue pair, which is all that there is over iWARP
	for _, v := range [...]uint32{uint32(n.to), typ | uint32(n.from), uint32(n.toPSN), uint32(n.fromPSN)} {
		b = binary.BigEndian.AppendUint32(b, v)
	}
	return b
}

func (n *rendezvousRequest) decode(b []byte) bool {
	if len(b) != rendezvousLen || string(b[:len(rendezvousMagic)]) != rendezvousMagic {
		return false
	}
	b = b[len(rendezvousMagic):]
	from := binary.BigEndian.Uint32(b[4:])
	*n = rendezvousRequest{typ: verbs.RC + verbs.QPType(from>>24), to: verbs.QPN(binary.BigEndian.Uint32(b)),
		from:  verbs.QPN(from & 0xffffff),
		toPSN: verbs.PSN(binary.BigEndian.Uint32(b[8:])), fromPSN: verbs.PSN(binary.BigEndian.Uint32(b[12:]))}
	return true
}

// canConnect reports whether the queue pair is in a state in which it has a peer. SQD is one: it holds back work
// requests, except receives (IBTA 10.3.1.5).
func (q *QP) canConnect() bool {
	s := q.Engine.State()
	return s >= verbs.StateRTR && s <= verbs.StateSQD
}

// connect dials the peer, or checks whether it has dialed.
func (q *QP) connect() {
	d, a, e := q.dev, q.Engine.Attr(), q.Engine
	if !q.canConnect() || e.Up() || q.conn != nil || a.DestQPN == 0 {
		return
	}
	peer := a.AH.DGID.Addr()
	switch order := d.rendezvous.addr.Compare(peer); {
	case order == 0 && q.Num() == a.DestQPN:
		q.connectSelf()
	case order < 0 || order == 0 && q.Num() < a.DestQPN:
		if e.State() == verbs.StateRTR && q.attempt == 0 {
			q.redialLater(nil) // RTS, with the starting PSN, usually follows soon
			break
		}
		q.dial(peer)
	default:
		if c := d.rendezvous.early[rendezvousKey{to: q.Num(), from: a.DestQPN, peer: peer}]; c != nil {
			d.match(c)
		}
	}
	q.startWait()
}

// connectSelf connects a queue pair to itself, if its device has links for that.
func (q *QP) connectSelf() {
	link, err := q.dev.carrier.Loop()
	if err != nil {
		return
	}
	depth := uint16(q.Engine.Attr().MaxDestRdAtomic)
	h := q.dev.dialed(driver.StreamParam{IRD: depth, ORD: depth}, nil, numberTimes)
	q.dev.newConn(link, h).begin(q, rdmap.Params{IRD: depth, ORD: depth})
}

// dial requests the peer from its device.
func (q *QP) dial(peer netip.Addr) {
	d, a := q.dev, q.Engine.Attr()
	port := RendezvousPort + uint16(a.DestQPN>>(24-d.rendezvous.bits))
	link, err := d.net.Dial(netip.AddrPortFrom(d.rendezvous.addr, 0), netip.AddrPortFrom(peer, port), a.AH.TrafficClass)
	if err != nil {
		q.redialLater(err)
		return
	}
	n := rendezvousRequest{typ: q.typ, to: a.DestQPN, from: q.Num(), toPSN: a.RQPSN, fromPSN: q.firstPSN()}
	c := d.newConn(link, d.dialed(driver.StreamParam{IRD: uint16(a.MaxDestRdAtomic), ORD: math.MaxUint16},
		n.append(nil), numberTimes))
	c.qp, q.conn = q, c
	c.failed = q.redialLater
	link.Watch(false, true)
	d.Lane.WakeForTimer()
}

// unknownPSN stands for a PSN that is unknown before RTS.
const unknownPSN verbs.PSN = 1 << 24

// firstPSN returns the starting PSN to send to the peer.
func (q *QP) firstPSN() verbs.PSN {
	if q.Engine.State() == verbs.StateRTR {
		return unknownPSN
	}
	return q.Engine.Attr().SQPSN
}

// redialLater makes another attempt a little later.
func (q *QP) redialLater(err error) {
	q.nobody = errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, errRejected)
	if !q.canConnect() {
		return
	}
	d := q.dev
	d.Lane.Timers.Set(&q.redial, d.Lane.PassTime()+min(redialMin<<min(q.attempt, 10), redialMax))
	q.attempt++
	d.Lane.WakeForTimer()
}

// handleRendezvous handles a request that names queue pairs.
func (d *Device) handleRendezvous(c *Conn) {
	var n rendezvousRequest
	if !n.decode(c.handshake.Peer.Private) || d.findQP(n.to) == nil {
		c.reject(nil)
		return
	}
	m := rendezvousKey{to: n.to, from: n.from, peer: c.link.PeerAddr().Addr().Unmap()}
	if old := d.rendezvous.early[m]; old != nil {
		old.End(true)
	}
	d.rendezvous.early[m] = c
	d.rendezvous.waiting.Add(m.peer, c)
	if d.match(c); d.rendezvous.waiting.Full() {
		d.rendezvous.endEarly()
	}
}

// endEarly ends the oldest request that came early, of the peer that has the most. That makes another attempt.
func (r *rendezvous) endEarly() {
	if c, ok := r.waiting.Oldest(); ok {
		c.End(true)
	}
}

// match hands a request to its queue pair, if that is ready.
func (d *Device) match(c *Conn) {
	var n rendezvousRequest
	n.decode(c.handshake.Peer.Private)
	q := d.findQP(n.to)
	if q == nil || q.typ != n.typ || q.Engine.State() == verbs.StateError {
		c.reject(nil)
		d.rendezvous.forget(c)
		return
	}
	a := q.Engine.Attr()
	if !q.canConnect() || q.conn != nil || a.DestQPN != n.from ||
		a.AH.DGID.Addr() != c.link.PeerAddr().Addr().Unmap() ||
		n.fromPSN != unknownPSN && a.RQPSN != n.fromPSN {
		if l, ok := c.link.(Holder); ok {
			l.Hold()
		}
		return // it waits
	}
	d.rendezvous.forget(c)
	c.handshake.Limit(uint16(a.MaxDestRdAtomic), math.MaxUint16)
	c.accept(q, nil)
}

// forget removes a connection that came early.
func (r *rendezvous) forget(c *Conn) {
	if c.listener != r.listener || c.handshake == nil {
		return
	}
	var n rendezvousRequest
	if n.decode(c.handshake.Peer.Private) {
		m := rendezvousKey{to: n.to, from: n.from, peer: c.link.PeerAddr().Addr().Unmap()}
		if r.early[m] == c {
			delete(r.early, m)
			r.waiting.Remove(m.peer, c)
		}
	}
}
