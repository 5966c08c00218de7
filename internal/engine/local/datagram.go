// SPDX-License-Identifier: Apache-2.0

package local

import (
	"github.com/ramjet-rdma/ramjet/internal/base/memory"
	"github.com/ramjet-rdma/ramjet/internal/base/queue"
	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/verbs/driver"
	"github.com/ramjet-rdma/ramjet/wire/ib"
)

// opDatagram is the only message between devices, which their UD queue pairs share: destination QPN
// (4), source QPN (4), Q_Key (4), immediate data (4), and of the GRH, as a number of 64 bits: flow label,
// and from bit 20 on traffic class, from bit 28 on hop limit. It may have the flags solicited and
// immediate.
const opDatagram kind = 0x80

const (
	datagramFields = 24 // bytes
	// packetFields is the length of a packet of the datagram beyond its payload: BTH, DETH, ICRC.
	packetFields = 12 + 8 + 4
	maxFlow      = 1<<20 - 1
	// defaultHops is the hop limit of an address vector that has none.
	defaultHops = 64
)

// AddressHandle is an address handle of a device that runs this engine.
type AddressHandle interface{ Vector() verbs.AHAttr }

// DatagramQP is a UD queue pair.
type DatagramQP struct {
	queue.Pair
	Device *Device
	lane   *Lane
	sq     queue.Ring[datagramWQE]
	kept   int // datagrams, from the oldest on, whose payloads are copies
	gather memory.Cursor
	land   memory.Cursor
}

// datagramWQE is the record of a datagram until it is sent.
type datagramWQE struct {
	queue.SendWQE
	to   verbs.AHAttr
	qpn  verbs.QPN
	qkey verbs.QKey
}

// NewDatagram makes a UD queue pair of a lane in the RESET state.
func NewDatagram(d *Device, l *Lane, c queue.Config) *DatagramQP {
	return &DatagramQP{Pair: queue.NewPair(&d.Device, &l.Outbox, c), Device: d, lane: l}
}

// Stats sets the statistics of the queue pair.
func (q *DatagramQP) Stats(s *verbs.QPStats) {
	q.Pair.Stats(s)
	s.SendQueue = q.sq.Len()
}

// Modify checks a change of attributes and applies it (IBTA 11.2.5.2). A datagram leaves as a whole:
// in SQD there is nothing to wait for.
func (q *DatagramQP) Modify(attr *verbs.QPAttr, mask verbs.QPMask) error {
	return q.Change(attr, mask, queue.Steps{Reset: q.Destroy, Fail: q.enterError, Applied: q.modified})
}

func (q *DatagramQP) modified(verbs.QPState, verbs.QPMask) {
	q.CheckDrained(false)
}

// Destroy drops everything that the queue pair holds.
func (q *DatagramQP) Destroy() {
	q.clear()
	q.Reset()
}

func (q *DatagramQP) clear() {
	q.sq.Clear()
	q.kept = 0
}

// pop drops the oldest datagram.
func (q *DatagramQP) pop() {
	q.sq.PopFront()
	q.kept = max(0, q.kept-1)
}

// lacks returns why a work request cannot be a datagram: it lacks an address.
func (q *DatagramQP) lacks(wr *verbs.SendWR) error {
	if wr.AH == nil {
		return queue.InvalidSend("a datagram needs an address handle (AH)")
	}
	if _, ours := driver.AHOf(wr.AH).(AddressHandle); !ours {
		return queue.InvalidSend("the address handle (AH) is of another kind of device")
	}
	return nil
}

// Post adds datagrams in order and returns how many; with all, none is added if one of them cannot be.
func (q *DatagramQP) Post(wrs []verbs.SendWR, all bool) (int, error) {
	n, err := q.CheckSends(wrs, q.sq.Len(), all, q.lacks)
	for i := range n {
		w := q.sq.PushBack()
		q.SetSend(&w.SendWQE, &wrs[i])
		w.to, w.qpn, w.qkey = driver.AHOf(wrs[i].AH).(AddressHandle).Vector(), wrs[i].RemoteQPN, wrs[i].RemoteQKey
		if q.Foreign(wrs[i].AH) {
			w.Status = verbs.StatusLocalQPOperationError
		}
	}
	if n > 0 && q.State() >= verbs.StateSQE {
		q.flushSends()
	}
	return n, err
}

// Next returns where the oldest datagram goes. It returns false if none may leave now. The caller then
// calls [DatagramQP.Send] for each device that it goes to, and [DatagramQP.Sent], or [DatagramQP.Drop].
func (q *DatagramQP) Next() (to verbs.GID, qpn verbs.QPN, ok bool) {
	if q.sq.Len() == 0 || q.State() != verbs.StateRTS {
		return to, 0, false
	}
	w := q.sq.Front()
	if w.Status == verbs.StatusSuccess && w.Copied {
		q.gather.One(memory.Inline(w.Inline))
	} else if w.Status == verbs.StatusSuccess && !q.gather.Set(q.Device.Memory, q.PD, w.SGL, false) {
		w.Status = verbs.StatusLocalProtectionError
	}
	if w.Status != verbs.StatusSuccess {
		q.fail(w.Status)
		return to, 0, false
	}
	return w.to.DGID, w.qpn, true
}

// Keep copies the payloads of all datagrams that wait, for a wait that a network does not have. UCX writes to the
// buffer of a connection request again as soon as the peer's own request comes, before the completion: a NIC has
// sent the datagram by then.
func (q *DatagramQP) Keep() {
	for ; q.kept < q.sq.Len(); q.kept++ {
		w := q.sq.At(q.kept)
		if w.Copied || w.Status != verbs.StatusSuccess {
			continue
		}
		ok := q.gather.Set(q.Device.Memory, q.PD, w.SGL, false)
		if ok {
			w.Inline, ok = q.gather.Append(w.Inline[:0], int(w.Length))
		}
		if w.Copied = ok; !ok {
			w.Status = verbs.StatusLocalProtectionError
		}
	}
}

// Room reports whether there is room for the datagram of [DatagramQP.Next] now.
func (q *DatagramQP) Room(p *Peer) (bool, error) {
	b, err := p.requests.Reserve(datagramFields+int(q.sq.Front().Length), 0)
	return b != nil, err
}

// Outcome is the result of sending or receiving a datagram.
type Outcome uint8

const (
	NoRoom Outcome = iota // it stays
	Copied                // it is on its way
	Failed                // its memory may not be read: the queue pair is in SQE
)

// Send sends the datagram of [DatagramQP.Next] to a device. wake says that the device sleeps and is to be woken.
func (q *DatagramQP) Send(p *Peer) (o Outcome, wake bool, err error) {
	w := q.sq.Front()
	k := opDatagram | operations[w.Op].flags
	if w.Flags&verbs.Solicited != 0 {
		k |= solicited
	}
	b, err := p.requests.Reserve(datagramFields+int(w.Length), uint32(k))
	if b == nil {
		return NoRoom, false, err
	}
	d := datagram{to: w.qpn, from: q.Num, qkey: w.qkey, imm: w.Imm,
		flow: w.to.FlowLabel & maxFlow, class: w.to.TrafficClass, hops: w.to.HopLimit}
	if d.qkey.Controlled() {
		d.qkey = q.Attr().QKey // IBTA 10.2.5
	}
	if d.hops == 0 {
		d.hops = defaultHops
	}
	d.put(b)
	q.gather.Seek(0) // it may have been sent to another device before
	if !q.gather.Read(b[datagramFields:]) {
		q.fail(verbs.StatusLocalProtectionError)
		return Failed, false, nil
	}
	c := &q.lane.Counters
	c.SentMessages++
	c.SentBytes += uint64(w.Length)
	q.Counts.SentPackets++
	return Copied, p.requests.Publish(), nil
}

// Sent completes the datagram of [DatagramQP.Next]: it has been sent to all devices that it goes to.
func (q *DatagramQP) Sent() {
	q.CompleteSend(&q.sq.Front().SendWQE, verbs.StatusSuccess)
	q.pop()
}

// Drop drops the datagram of [DatagramQP.Next]: its destination does not exist, or takes no datagrams. Its
// sender gets no error, as on a network (IBTA 9.8.3).
func (q *DatagramQP) Drop(r Reason) {
	q.lane.Counters.Dropped[r]++
	q.Sent()
}

// fail completes the oldest datagram with a status and moves to SQE (IBTA 10.3.1.6).
func (q *DatagramQP) fail(s verbs.Status) {
	q.CompleteSend(&q.sq.Front().SendWQE, s)
	q.pop()
	q.SetState(verbs.StateSQE)
	q.flushSends()
}

func (q *DatagramQP) flushSends() {
	for q.sq.Len() > 0 {
		q.CompleteSend(&q.sq.Front().SendWQE, verbs.StatusWRFlushError)
		q.pop()
	}
}

// enterError moves to ERR and flushes both queues.
func (q *DatagramQP) enterError() {
	if q.State() == verbs.StateError {
		return
	}
	q.SetState(verbs.StateError)
	q.flushSends()
	q.FlushReceives()
}

// Reason is why a datagram was dropped.
type Reason uint8

const (
	taken             Reason = iota
	DropNobody               // no device is at its address, or that device has ended
	DropStalled              // the process of the device that it is for takes none
	dropNoDestination        // no such queue pair
	dropState                // the queue pair is in a state that does not receive
	dropQKey                 // Q_Key mismatch
	dropNoReceive            // no receive was posted
	dropTooLong              // it is longer than the receive, which stays posted
	dropAccess               // the receive's memory may not be written to
	numReasons
)

func (r Reason) String() string {
	return [...]string{"taken", "nobody_there", "receiver_stalled", "no_such_qp", "bad_state", "qkey_mismatch",
		"no_receive_posted", "longer_than_receive", "access_denied"}[r]
}

// datagram are the fields of a datagram.
type datagram struct {
	to, from    verbs.QPN
	qkey        verbs.QKey
	imm         uint32
	flow        uint32
	class, hops uint8
}

func (d *datagram) put(b []byte) {
	put32(b, 0, uint32(d.to))
	put32(b, 4, uint32(d.from))
	put32(b, 8, uint32(d.qkey))
	put32(b, 12, d.imm)
	put64(b, 16, uint64(d.flow)|uint64(d.class)<<20|uint64(d.hops)<<28)
}

// decode reads the fields, each once: the peer can change them all the time. It returns false if a
// message is no datagram.
func (d *datagram) decode(k kind, body []byte, mtu int) bool {
	if k.op() != opDatagram || k&^(0xff|solicited|immediate) != 0 || len(body) < datagramFields ||
		len(body) > datagramFields+mtu {
		return false
	}
	*d = datagram{to: verbs.QPN(get32(body, 0)), from: verbs.QPN(get32(body, 4)), qkey: verbs.QKey(get32(body, 8)),
		imm: get32(body, 12)}
	grh := get64(body, 16)
	d.flow, d.class, d.hops = uint32(grh)&maxFlow, uint8(grh>>20), uint8(grh>>28)
	return d.from <= ib.QPNMulticast && grh>>36 == 0
}

// ReceiveDatagrams hands datagrams from the device at another address to a lane's queue pairs, which
// find finds by the numbers of the receiver and the sender, until budget bytes have come. It returns how
// many datagrams came, their bytes, and whether the peer is to be woken. After an error the peer cannot be
// used any more.
func (d *Device) ReceiveDatagrams(l *Lane, p *Peer, from, to verbs.GID, budget int,
	find func(to, from verbs.QPN) []*DatagramQP) (count, moved int, wake bool, err error) {
	defer func() { wake = p.inRequests.Return() || wake }()
	for moved < budget {
		body, k, ok, err := p.inRequests.Peek()
		if !ok || err != nil {
			return count, moved, wake, err
		}
		var h datagram
		if !h.decode(kind(k), body, d.Ports[0].MTU) {
			return count, moved, wake, ErrCorrupt
		}
		all := find(h.to, h.from)
		if len(all) == 0 {
			l.Counters.Dropped[dropNoDestination]++
		}
		for _, q := range all {
			if r := q.receive(&h, kind(k), from, to, body[datagramFields:]); r != taken {
				l.Counters.Dropped[r]++
			}
		}
		l.Counters.RecvMessages++
		wake = p.inRequests.Release() || wake
		moved += (recordHeader + len(body)) * max(1, len(all))
		count++
	}
	return count, moved, wake, nil
}

// receive puts a datagram into the oldest receive (IBTA 9.8.3). Any device can send one: a datagram that does
// not fit is dropped and leaves the receive posted, and so do other errors of the sender.
func (q *DatagramQP) receive(h *datagram, k kind, from, to verbs.GID, payload []byte) Reason {
	q.Counts.RecvPackets++
	switch {
	case q.State() < verbs.StateRTR || q.State() == verbs.StateError:
		return dropState
	case h.qkey != q.Attr().QKey:
		return dropQKey
	}
	need := uint64(ib.GRHLen + len(payload))
	room, ok := q.TakeReceiveOf(q.Recv, need)
	switch {
	case !ok:
		return dropNoReceive
	case room < need:
		if a := q.Device.Memory.Accesses(); a != nil {
			a.TooLong(q.Num, len(payload), room)
		}
		return dropTooLong
	}
	var buf [ib.GRHLen]byte
	grh := ib.GRH{IPVer: 6, TClass: h.class, FlowLabel: h.flow, PayLen: uint16(packetFields + (len(payload)+3)&^3),
		NxtHdr: ib.GRHNextHeader, HopLmt: h.hops, SGID: from, DGID: to}
	t := q.Device.Memory
	if !q.Scatter(&q.land) || !q.land.Write(t, grh.Append(buf[:0])) || !q.land.Write(t, payload) {
		q.CompleteReceive(verbs.StatusLocalProtectionError)
		q.enterError()
		return dropAccess
	}
	q.CountRequest(len(payload), true)
	q.lane.Counters.RecvBytes += uint64(len(payload))
	c := q.CompleteReceive(verbs.StatusSuccess)
	c.Solicited = k.has(solicited)
	c.WC.ByteLen, c.WC.SrcQPN, c.WC.PKeyIndex, c.WC.Flags = uint32(ib.GRHLen+len(payload)), h.from, q.Attr().PKeyIndex,
		verbs.WithGRH
	if k.has(immediate) {
		c.WC.Flags |= verbs.WithImm
		c.WC.Imm = h.imm
	}
	return taken
}

// CheckDatagrams notes which datagrams the peer has taken, of a link that carries datagrams one way. It
// fails if the peer has broken the rules: it sends in the other direction.
func (p *Peer) CheckDatagrams(receives bool) error {
	if _, err := p.requests.Done(); err != nil {
		return err
	}
	if p.responses.Acknowledged() || p.inResponses.Pending() || !receives && p.inRequests.Pending() {
		return ErrCorrupt
	}
	return nil
}
