// SPDX-License-Identifier: Apache-2.0

package packetdev

import (
	"bytes"
	"encoding/binary"
	"errors"
	"net/netip"
	"slices"
	"time"

	"github.com/ramjet-rdma/ramjet/internal/base/clock"
	"github.com/ramjet-rdma/ramjet/internal/core/faults"
	"github.com/ramjet-rdma/ramjet/internal/core/observe"
	"github.com/ramjet-rdma/ramjet/internal/core/softdev"
	"github.com/ramjet-rdma/ramjet/internal/engine/ibta"
	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/wire/ib"
	wire "github.com/ramjet-rdma/ramjet/wire/mad"
)

// maxDelayed bounds the bytes of packets that are delayed in one direction. Packets beyond it are lost, as in a router.
const maxDelayed = 64 << 20

// impairment applies faults to the packets of a lane. Its methods are called with the lane's lock held.
type impairment struct {
	*softdev.Faulty
	lane *lane
	out  delayed[outPacket]
	in   delayed[inPacket]
	one  *ibta.Batch // for packets that leave alone
	kept *ibta.Batch // the port could not take it; it has been decided about

	senders map[connection]*qp // the queue pairs found
}

// delayed are packets by the time at which they go on.
type delayed[T any] struct {
	list  []delayedPacket[T]
	bytes int
	timer softdev.Timer
}

type delayedPacket[T any] struct {
	at     clock.Time
	size   int
	packet T
}

// add adds a packet. It returns false if there are too many.
func (q *delayed[T]) add(at clock.Time, size int, p T) bool {
	if q.bytes+size > maxDelayed {
		return false
	}
	q.bytes += size
	i := len(q.list)
	for i > 0 && q.list[i-1].at > at {
		i--
	}
	q.list = slices.Insert(q.list, i, delayedPacket[T]{at, size, p})
	return true
}

// next takes the first packet that is due.
func (q *delayed[T]) next(now clock.Time) (p T, ok bool) {
	if len(q.list) == 0 || q.list[0].at > now {
		return p, false
	}
	p = q.list[0].packet
	q.bytes -= q.list[0].size
	q.list = slices.Delete(q.list, 0, 1)
	return p, true
}

// outPacket is a packet that is to leave.
type outPacket struct {
	to      *ibta.Vector
	bytes   []byte // headers to pad, with room for the ICRC
	corrupt bool
	comment string
}

// inPacket is a packet that has come.
type inPacket struct {
	packet ib.Packet
	from   ibta.Arrival
}

// savedHeader is the GRH of a packet that has come.
type savedHeader []byte

func (h savedHeader) AppendGRH(b []byte) []byte { return append(b, h...) }

// Impair begins the faults' effects on packets; nil: it ends them, and packets that are delayed go on at once.
func (d *Device) Impair(x *softdev.Faulty) {
	for _, l := range d.lanes {
		l.impair(x)
	}
}

func (l *lane) impair(x *softdev.Faulty) {
	if i := l.impaired; i != nil {
		l.impaired, l.progress.deliverTo = nil, l.take
		l.core.Timers.Stop(&i.out.timer)
		l.core.Timers.Stop(&i.in.timer)
		const end = clock.Time(1<<63 - 1)
		if x == nil || !x.Dead {
			i.sendDue(end)
			i.takeDue(end)
		}
	}
	if x == nil || !x.Dead && !x.Unready && !x.Injector.Has(faults.Kind.OfPackets) {
		return
	}
	i := &impairment{Faulty: x, lane: l, one: ibta.NewBatch(l.dev.engine.Limits), senders: map[connection]*qp{}}
	i.out.timer.Fire = func() { i.sendDue(l.core.PassTime()) }
	i.in.timer.Fire = func() { i.takeDue(l.core.PassTime()) }
	l.impaired, l.progress.deliverTo = i, i.take
}

// RefusesFault returns why a fault makes no sense.
func (d *Device) RefusesFault(f *faults.Fault) string {
	if f.LID != 0 && d.port.Info(1).Link != verbs.LinkInfiniBand {
		return softdev.NoLIDs
	}
	return ""
}

// hand gives a batch to the port.
func (l *lane) hand(b *ibta.Batch) error {
	if i := l.impaired; i != nil {
		return i.send(b)
	}
	return l.port.Send(b)
}

// send sends a batch, as far as faults let it.
func (i *impairment) send(b *ibta.Batch) error {
	if i.kept == b && i.lane.progress.isStalled {
		return i.pass(b)
	}
	verdicts := make([]faults.Verdict, b.Len())
	passes := len(i.out.list) == 0
	for k := range verdicts {
		pkt := b.Packet(k)
		p := i.outgoing(b, k, pkt.Head)
		verdicts[k] = i.decide(p)
		passes = passes && verdicts[k].Passes()
		if r := i.captureOf(p.QP); r != nil {
			i.captureSent(r, b, k, &verdicts[k])
		}
	}
	if passes {
		return i.pass(b)
	}
	now := i.lane.core.PassTime()
	for k, v := range verdicts {
		packet, ok := b.Extract(k)
		if !ok {
			return errUnmapped
		}
		p := outPacket{b.To, packet, v.Corrupt, v.By.Without(faults.Duplicate).Comment()}
		if v.Drop {
			i.lost()
			i.record(&p)
			continue
		}
		for range v.Copies + 1 {
			i.out.add(now+clock.Time(v.Delay), len(packet), p)
			p.comment = v.By.Comment()
		}
	}
	i.sendDue(now)
	return nil
}

// captureOf returns where packets of a queue pair are captured; nil: nowhere.
func (i *impairment) captureOf(q faults.QP) *observe.Ring {
	if q := i.lane.dev.QPs[verbs.QPN(q.Num)]; q != nil {
		return q.Common().Capture.Load()
	}
	return nil
}

// captureSent adds a packet of a batch, and its copies.
func (i *impairment) captureSent(r *observe.Ring, b *ibta.Batch, k int, v *faults.Verdict) {
	now := time.Now().UnixNano()
	captureOfBatch(r, b, k, now, v.By.Without(faults.Duplicate).Comment())
	for range v.Copies {
		captureOfBatch(r, b, k, now, v.By.Comment())
	}
}

// record records a packet that is lost, where the port records the packets that it sends.
func (i *impairment) record(p *outPacket) {
	if r, ok := i.lane.port.(Recorder); ok {
		i.only(p)
		r.RecordLost(i.one)
	}
}

// only makes a packet the only one of the batch that leaves alone.
func (i *impairment) only(p *outPacket) {
	i.one.SetPacket(p.to, p.bytes)
	i.one.Corrupt, i.one.Comment = p.corrupt, p.comment
}

var errUnmapped = errors.New("memory to be sent has been unmapped")

// pass sends a batch as it is.
func (i *impairment) pass(b *ibta.Batch) error {
	err := i.lane.port.Send(b)
	if i.kept = nil; errors.Is(err, softdev.ErrAgain) {
		i.kept = b
	}
	return err
}

// sendDue sends the packets that are due.
func (i *impairment) sendDue(now clock.Time) {
	l := i.lane
	for len(i.out.list) > 0 && i.out.list[0].at <= now {
		i.only(&i.out.list[0].packet)
		if err := l.port.Send(i.one); errors.Is(err, softdev.ErrAgain) && l.impaired == i {
			i.wake(&i.out.timer, l.core.PassTime()+softdev.RetryTime)
			return
		} else if err != nil {
			l.engine.Counters.SendErrors++
		}
		i.out.next(now)
	}
	l.core.Mu.Counted = true
	if len(i.out.list) > 0 {
		i.wake(&i.out.timer, i.out.list[0].at)
	}
}

func (i *impairment) wake(t *softdev.Timer, at clock.Time) {
	i.lane.core.Timers.Set(t, at)
	i.lane.core.WakeForTimer()
}

// lost notes that a packet is lost: where a network counts its losses, a requester that waits for an answer asks it
// before it retransmits.
func (i *impairment) lost() {
	if c := i.lane.dev.losses; c != nil {
		c.Dropped(1)
	}
}

// addrOf returns the address of a peer; the zero Addr: it has none.
func addrOf(k *ibta.PathKey) netip.Addr {
	if k.GID == (verbs.GID{}) {
		return netip.Addr{}
	}
	return k.GID.Addr()
}

// decide returns the fate of a packet.
func (i *impairment) decide(p faults.Packet) faults.Verdict {
	v := i.Faulty.Injector.Packet(&p, i.Since(i.lane.core))
	v.Drop = v.Drop || i.Dead
	return v
}

// outgoing describes a packet of a batch.
func (i *impairment) outgoing(b *ibta.Batch, k int, head []byte) faults.Packet {
	op := ib.Opcode(head[0])
	p := faults.Packet{Way: faults.Sent, Peer: addrOf(&b.To.Key), LID: b.To.Key.LID, Size: b.PacketSize(k),
		Name: op.String(), Message: messageOf(op)}
	dest := verbs.QPN(binary.BigEndian.Uint32(head[4:]) & 0xffffff)
	if dest <= ib.QP1 && op.Info().HeaderLen < len(head) {
		p.Message = managementOf(head[op.Info().HeaderLen:])
		p.Name += " " + p.Message
		return p
	}
	if op.Info().Headers&ib.HasDETH != 0 {
		p.QP = i.QPNumbered(verbs.QPN(binary.BigEndian.Uint32(head[ib.BTHLen+4:]) & 0xffffff))
	} else if q := i.senderTo(connection{b.To.Key, dest}); q != nil {
		p.QP = i.QPOf(&q.QP)
	}
	return p
}

// connection is a queue pair of a peer.
type connection struct {
	host ibta.PathKey
	qpn  verbs.QPN
}

// senderTo returns the queue pair that is connected to one of a peer; nil: there is none.
func (i *impairment) senderTo(to connection) *qp {
	connected := func(q *qp) bool {
		av := q.engine.AV()
		return av != nil && av.Key == to.host && q.engine.Attr().DestQPN == to.qpn
	}
	if q := i.senders[to]; q != nil && connected(q) {
		return q
	}
	if len(i.senders) > len(i.lane.dev.QPs) { // some have ended
		clear(i.senders)
	}
	for _, o := range i.lane.dev.QPs {
		if q := o.(*qp); q.lane == i.lane && connected(q) {
			i.senders[to] = q
			return q
		}
	}
	return nil
}

// take takes a packet to its queue pair, as far as faults let it.
func (i *impairment) take(p *ib.Packet, from *ibta.Arrival) {
	l := i.lane
	pk := i.incoming(p, from)
	v := i.decide(pk)
	from.Comment = v.By.Comment()
	if r := i.captureOf(pk.QP); r != nil && (v.Drop || v.Corrupt) {
		captureReceived(r, p, from)
	}
	switch {
	case v.Drop:
		i.lost()
		return
	case v.Corrupt:
		l.engine.Counters.Dropped[ibta.DropICRC]++
		return
	}
	if v.Delay == 0 {
		for range v.Copies + 1 {
			i.accept(p, from, &pk)
		}
		return
	}
	saved := inPacket{*p, *from}
	saved.packet.Payload = bytes.Clone(p.Payload)
	if from.Header != nil {
		saved.from.Header = savedHeader(from.Header.AppendGRH(nil))
	}
	for range v.Copies + 1 {
		i.in.add(l.core.PassTime()+clock.Time(v.Delay), pk.Size, saved)
	}
	i.wake(&i.in.timer, i.in.list[0].at)
}

// takeDue takes the packets that are due.
func (i *impairment) takeDue(now clock.Time) {
	l := i.lane
	for {
		p, ok := i.in.next(now)
		if !ok {
			break
		}
		pk := i.incoming(&p.packet, &p.from)
		i.accept(&p.packet, &p.from, &pk)
	}
	l.core.Deliver()
	l.dev.TellWatchers()
	l.core.Mu.Counted = true
	if len(i.in.list) > 0 {
		i.wake(&i.in.timer, i.in.list[0].at)
	}
}

// accept takes a packet to its queue pair, whose receives it may not find.
func (i *impairment) accept(p *ib.Packet, from *ibta.Arrival, pk *faults.Packet) {
	l := i.lane
	if !i.Unready || !needsReceive(p.Opcode.Info()) || p.DestQP <= ib.QP1 {
		l.take(p, from)
		return
	}
	held := l.dev.engine.Unready
	if i.Faulty.Injector.NotReady(pk, i.Since(i.lane.core)) {
		l.dev.engine.Unready = true
		from.Comment = faults.Kinds(1 << faults.RNR).Comment()
	}
	l.take(p, from)
	l.dev.engine.Unready = held
}

// needsReceive reports whether a packet takes a receive.
func needsReceive(o *ib.OpInfo) bool {
	return o.Class == ib.ClassSend && o.First || o.Class == ib.ClassWrite && o.Imm
}

// incoming describes a packet that has come.
func (i *impairment) incoming(p *ib.Packet, from *ibta.Arrival) faults.Packet {
	info := p.Opcode.Info()
	pk := faults.Packet{Way: faults.Received, Peer: addrOf(&from.From), LID: from.From.LID,
		Name: p.Opcode.String(), Message: messageOf(p.Opcode),
		Size: info.HeaderLen + len(p.Payload) + int(p.PadCount) + ib.ICRCLen}
	if p.DestQP <= ib.QP1 {
		pk.Message = managementOf(p.Payload)
		pk.Name += " " + pk.Message
		return pk
	}
	pk.QP = i.QPNumbered(p.DestQP)
	return pk
}

// messageOf returns the sort of a packet, as faults name it.
func messageOf(op ib.Opcode) string {
	switch op.Info().Class {
	case ib.ClassSend:
		return "send"
	case ib.ClassWrite:
		return "write"
	case ib.ClassReadRequest:
		return "read"
	case ib.ClassReadResponse:
		return "response"
	case ib.ClassAtomic, ib.ClassAtomicWrite:
		return "atomic"
	case ib.ClassAck, ib.ClassAtomicAck:
		return "ack"
	case ib.ClassCNP:
		return "cnp"
	}
	return "other"
}

// managementOf returns the sort of a management datagram.
func managementOf(b []byte) string {
	var h wire.Header
	if !h.Decode(b) || h.Class != wire.ClassCM {
		return "mad"
	}
	if name := h.Attribute.String(); slices.Contains(faults.Messages, name) {
		return name
	}
	return "mad"
}
