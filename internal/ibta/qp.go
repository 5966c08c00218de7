// SPDX-License-Identifier: Apache-2.0

package ibta

import (
	"github.com/ramjet-rdma/ramjet/internal/memory"
	"github.com/ramjet-rdma/ramjet/internal/queue"
	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/wire/ib"
)

// Time is nanoseconds of a monotonic clock. Zero means never.
type Time int64

// Vector is an address vector that the device has resolved.
type Vector struct {
	Attr  verbs.AHAttr
	Flow  *Flow // what is under way to that host
	Route any   // the port's own

	fullSince Time // when its peer's buffer was found full; 0: it was not
}

// same says whether packets to v and to w can leave in one send.
func (v *Vector) same(w *Vector) bool { return v.Flow == w.Flow && v.Attr == w.Attr }

// AddressHandle is an address handle of a device that runs this engine.
type AddressHandle interface{ Vector() *Vector }

// MemoryWindow is a memory window of a device that runs this engine.
type MemoryWindow interface{ Window() *memory.Window }

// MemoryRegion is a memory region of a device that runs this engine.
type MemoryRegion interface{ Region() *memory.Region }

// Arrival is what the port knows of a received packet beyond its transport headers.
type Arrival interface {
	// AppendGRH appends the 40 bytes that a datagram leaves in front of its payload.
	AppendGRH(b []byte) []byte
}

// Device is what the queue pairs of one device share.
type Device struct {
	Memory   *memory.Table
	Outbox   queue.Outbox
	Counters Counters
	PKeys    []verbs.PKey
	// Resolve makes an address vector of its attributes.
	Resolve func(verbs.AHAttr) (*Vector, error)
	// Persist begins to make memory persistent, and calls Flush.Done later. Regions allow
	// FLUSH to persistence only on devices that have it.
	Persist    func(*Flush)
	Pace       Pace
	MTU        int    // bytes of a datagram's payload
	MaxMsgSize uint32 // bytes of a message
	grh        []byte // scratch
	early      earlyMemory
}

// Config is what does not change in the life of a queue pair.
type Config struct {
	Device    *Device
	Num       verbs.QPN
	Type      verbs.QPType
	Caps      verbs.QPCap
	PD        memory.PD
	SendCQ    *queue.CQ
	RecvCQ    *queue.CQ
	Recv      *RecvQueue // the queue pair's own, or shared
	Shared    bool       // Recv is a shared receive queue
	Domain    *Domain    // XRC target
	SignalAll bool
	Owner     any // the device's own, for events
}

// QP is a queue pair.
type QP struct {
	Config
	attr  verbs.QPAttr
	state verbs.QPState
	path  *Vector // connected transports
	pkey  verbs.PKey
	req   requester
	resp  responder
}

// New makes a queue pair in the RESET state.
func New(c Config) *QP { return &QP{Config: c} }

// State returns the present state.
func (q *QP) State() verbs.QPState { return q.state }

// Path returns the peer's address, nil before RTR and for datagrams.
func (q *QP) Path() *Vector { return q.path }

// Query returns the present attributes.
func (q *QP) Query() verbs.QPAttr {
	a := q.attr
	a.State, a.CurState, a.Cap = q.state, q.state, q.Caps
	a.RQPSN, a.SQPSN = q.resp.psn, q.req.nextPSN
	return a
}

// transport returns the top bits of the opcodes that q sends and receives.
func (q *QP) transport() ib.Transport {
	switch q.Type {
	case verbs.UC:
		return ib.TransportUC
	case verbs.UD:
		return ib.TransportUD
	case verbs.XRCIni, verbs.XRCTgt:
		return ib.TransportXRC
	}
	return ib.TransportRC
}

// reliable says whether requests are acknowledged.
func (q *QP) reliable() bool { return q.Type != verbs.UC && q.Type != verbs.UD }

func (q *QP) mtu() int { return q.attr.PathMTU.Bytes() }

// HandlePacket takes a packet that is for this queue pair: its ICRC was right and, on a
// connected transport, it came from the peer's address. It returns why the packet was
// dropped, or Taken. The packet's memory is the caller's again on return.
func (q *QP) HandlePacket(now Time, p *ib.Packet, from Arrival) Reason {
	if q.state < verbs.RTR || q.state == verbs.Err {
		return DropState
	}
	if p.Opcode.Transport() != q.transport() {
		return DropTransport
	}
	if !p.PKey.Match(q.pkey) {
		return DropPKey
	}
	if q.Type == verbs.UD {
		return q.receiveDatagram(p, from)
	}
	switch p.Opcode.Info().Class {
	case ib.ClassAck, ib.ClassReadResponse, ib.ClassAtomicAck:
		return q.handleResponse(now, p)
	}
	return q.handleRequest(now, p)
}

// NextPackets fills b with what q has to send next, all to one destination; it returns
// false when there is nothing that may leave now.
func (q *QP) NextPackets(now Time, b *Batch) bool {
	b.Reset()
	return q.AppendPackets(now, b)
}

// AppendPackets is NextPackets for a batch that has packets of other queue pairs already. It
// also returns false, and b is full, when what q has to send does not fit.
func (q *QP) AppendPackets(now Time, b *Batch) bool {
	before := b.Len()
	q.respond(b)
	if b.Len() == before {
		q.request(now, b)
	}
	if b.Len() == before && b.Acks {
		q.acknowledge(b)
	}
	return b.Len() > before
}

// AppendAck adds the acknowledgement that may leave to a batch of q's own packets, which it
// then ends.
func (q *QP) AppendAck(b *Batch) {
	if b.Acks {
		q.acknowledge(b)
	}
}

// HasAck says whether an acknowledgement waits for Batch.Acks.
func (q *QP) HasAck() bool { return q.resp.ack.pending }

// AckedMessages returns how many requests that asked for an acknowledgement the waiting one
// is for.
func (q *QP) AckedMessages() int {
	if !q.resp.ack.pending {
		return 0
	}
	return q.resp.ack.asked
}

// HandleTimeout does what is due at now.
func (q *QP) HandleTimeout(now Time) {
	if t := q.req.quietUntil; t != 0 && now >= t {
		q.req.quietUntil = 0
	}
	if t := q.req.retransmitAt; t != 0 && now >= t {
		q.retransmitTimeout(now)
	}
	if e := q.resp.early; e != nil && e.gap.due(now) {
		q.tellMissing()
	}
	if e := q.req.early; e != nil && e.gap.due(now) {
		q.responseLost()
	}
}

// Deadline returns when HandleTimeout is due; zero: not at all.
func (q *QP) Deadline() Time {
	due := q.req.quietUntil
	if due == 0 {
		due = q.req.retransmitAt
	}
	for _, e := range [2]*early{q.resp.early, q.req.early} {
		if e != nil && e.gap.tellAt != 0 && (due == 0 || e.gap.tellAt < due) {
			due = e.gap.tellAt
		}
	}
	return due
}

// fail completes the oldest send work request with a status and moves to the state that
// the error leads to: ERR, or SQE on unreliable transports (IBTA 10.3.1.5, 10.10).
func (q *QP) fail(status verbs.Status) {
	if q.req.sq.Len() > 0 {
		q.completeSend(q.req.sq.Front(), status)
		q.req.sq.PopFront()
	}
	if q.reliable() {
		q.enterError()
		q.Device.Outbox.Raise(verbs.EventQPBroken, q.Owner)
		return
	}
	q.state = verbs.SQE
	q.flushSends()
}

// enterError moves to ERR and flushes both queues.
func (q *QP) enterError() {
	if q.state == verbs.Err {
		return
	}
	q.state = verbs.Err
	q.flushSends()
	q.flushReceives()
	q.stopRequester()
	q.forgetEarly()
}

// forgetEarly drops what came before its turn.
func (q *QP) forgetEarly() {
	q.resp.early.clear(&q.Device.early)
	q.req.early.clear(&q.Device.early)
}
