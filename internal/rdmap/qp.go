// SPDX-License-Identifier: Apache-2.0

package rdmap

import (
	"github.com/ramjet-rdma/ramjet/internal/memory"
	"github.com/ramjet-rdma/ramjet/internal/queue"
	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/wire/iwarp"
)

// MemoryWindow is a memory window of a device that runs this engine.
type MemoryWindow interface{ Window() *memory.Window }

// MemoryRegion is a memory region of a device that runs this engine.
type MemoryRegion interface{ Region() *memory.Region }

// Device is what the queue pairs of one device share.
type Device struct {
	Memory   *memory.Table
	Outbox   queue.Outbox
	Counters Counters
	PKeys    int // entries of the P_Key table, which iWARP has no use for
	// Resolve says whether an address vector can be used.
	Resolve    func(*verbs.AHAttr) error
	MTU        int // bytes, the largest path MTU
	MaxMsgSize uint32

	scratch []byte // what was received last
}

// Counters are what happened on a device.
type Counters struct {
	SentFPDUs, RecvFPDUs           uint64
	SentBytes, RecvBytes           uint64 // of streams, what is not payload included
	SentTerminates, RecvTerminates uint64
	CRCErrors                      uint64
	Lost                           uint64 // streams
	Writes, Reads                  uint64 // system calls
	NoRoom                         uint64 // times that the system had no room for a link that a peer has made
	Dropped                        uint64 // links that said nothing, and had to go for others
}

// List returns the counters by name.
func (c *Counters) List() []verbs.Counter {
	return []verbs.Counter{
		{Name: "sent_fpdus", Value: c.SentFPDUs}, {Name: "rcvd_fpdus", Value: c.RecvFPDUs},
		{Name: "sent_bytes", Value: c.SentBytes}, {Name: "rcvd_bytes", Value: c.RecvBytes},
		{Name: "sent_terminates", Value: c.SentTerminates}, {Name: "rcvd_terminates", Value: c.RecvTerminates},
		{Name: "crc_errors", Value: c.CRCErrors}, {Name: "lost_streams", Value: c.Lost},
		{Name: "stream_writes", Value: c.Writes}, {Name: "stream_reads", Value: c.Reads},
		{Name: "accept_no_room", Value: c.NoRoom}, {Name: "accept_dropped", Value: c.Dropped},
	}
}

// Config is what does not change in the life of a queue pair.
type Config struct {
	Device    *Device
	Num       verbs.QPN
	Caps      verbs.QPCap
	PD        memory.PD
	SendCQ    *queue.CQ
	RecvCQ    *queue.CQ
	Recv      *queue.RecvQueue // the queue pair's own, or shared
	Shared    bool             // Recv is a shared receive queue
	SignalAll bool
	Owner     any // the device's own, for events
}

// QP is a queue pair.
type QP struct {
	Config
	attr  verbs.QPAttr
	state verbs.QPState
	up    bool // there is a stream
	Params
	sendQueue
	tx   sender
	rx   receiver
	term *iwarp.Terminate // to be sent
	fin  bool             // nothing is to be sent after what is on its way
}

// New makes a queue pair in the RESET state.
func New(c Config) *QP { return &QP{Config: c} }

// State returns the present state.
func (q *QP) State() verbs.QPState { return q.state }

// Query returns the present attributes.
func (q *QP) Query() verbs.QPAttr {
	a := q.attr
	a.State, a.CurState, a.Cap = q.state, q.state, q.Caps
	return a
}

// Attr returns the attributes that were set.
func (q *QP) Attr() *verbs.QPAttr { return &q.attr }

// Up says whether the queue pair has a stream.
func (q *QP) Up() bool { return q.up }

// Waiting says whether work requests wait for a stream.
func (q *QP) Waiting() bool { return !q.up && q.sq.Len() > 0 && q.state == verbs.RTS }

// Begin gives the queue pair a stream whose set-up is done. Its state is RTR or RTS, or
// becomes RTS from INIT: there the connection manager brings the stream.
func (q *QP) Begin(p Params) bool {
	if q.up || q.state == verbs.Reset || q.state > verbs.SQD {
		return false
	}
	if q.state == verbs.Init {
		q.state = verbs.RTS
		q.attr.MaxRdAtomic, q.attr.MaxDestRdAtomic = uint8(min(p.ORD, 255)), uint8(min(p.IRD, 255))
	}
	q.up, q.Params = true, p
	q.tx.begin(&p)
	q.rx = receiver{held: q.rx.held, sendMSN: 1, readMSN: 1, atomicMSN: 1, land: q.rx.land, recv: q.rx.recv}
	return true
}

// Lost ends a stream that broke, or that could not be made: the oldest work request gets
// RetryExceeded, as nothing is known of what the peer did. A stream that the peer closed in
// an orderly way, which is not in the middle of a message, just flushes.
func (q *QP) Lost(orderly bool) {
	orderly = orderly && !q.rx.midway && len(q.rx.part) == 0
	q.up = false
	if q.state == verbs.Err || q.state == verbs.Reset {
		return
	}
	q.Device.Counters.Lost++
	if !orderly && q.sq.Len() > 0 {
		q.fail(verbs.RetryExceeded)
		return
	}
	q.enterError()
	q.Device.Outbox.Raise(verbs.EventQPBroken, q.Owner)
}

// Ending says that the stream is to be closed once all that NextFPDUs returned was sent.
func (q *QP) Ending() bool { return q.fin && q.term == nil }

// fail completes the oldest send work request with a status and moves to ERR.
func (q *QP) fail(status verbs.Status) {
	if q.sq.Len() > 0 {
		q.completeSend(q.sq.Front(), status)
		q.popFront()
	}
	q.enterError()
	q.Device.Outbox.Raise(verbs.EventQPBroken, q.Owner)
}

// enterError moves to ERR and flushes both queues.
func (q *QP) enterError() {
	if q.state == verbs.Err {
		return
	}
	q.state = verbs.Err
	q.fin = true
	q.flushSends()
	q.flushReceives()
	q.tx.stop()
	q.rx.stop()
}
