// SPDX-License-Identifier: Apache-2.0

package rdmap

import (
	"github.com/ramjet-rdma/ramjet/internal/base/queue"
	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/verbs/driver"
	"github.com/ramjet-rdma/ramjet/verbs/metric"
	"github.com/ramjet-rdma/ramjet/wire/iwarp"
)

// Device has the facts of a device, which queue pairs of every lane work with.
type Device struct {
	queue.Device // iWARP has no use for P_Keys
	// Resolve reports whether an address vector can be used.
	Resolve func(*verbs.AHAttr) error
}

// Lane holds the counters, completions and scratch memory of queue pairs that work one after the other. The zero
// Lane is ready for use.
type Lane struct {
	Counters Counters
	Outbox   queue.Outbox
	scratch  []byte // the bytes received last
}

// Counters count events on a device.
type Counters struct {
	SentFPDUs, RecvFPDUs           uint64
	SentBytes, RecvBytes           uint64 // of streams, including everything that is not payload
	SentTerminates, RecvTerminates uint64
	CRCErrors                      uint64
	Lost                           uint64 // streams
	Writes, Reads                  uint64 // system calls
}

// Metrics returns the counters.
func (c *Counters) Metrics() []metric.Metric {
	const fpdus, bytes, events = metric.UnitPackets, metric.UnitBytes, metric.UnitEvents
	return []metric.Metric{
		{Name: "sent_fpdus", Unit: fpdus, Help: "FPDUs sent", Value: c.SentFPDUs},
		{Name: "rcvd_fpdus", Unit: fpdus, Help: "FPDUs received", Value: c.RecvFPDUs},
		{Name: "sent_bytes", Unit: bytes, Help: "bytes of streams sent, headers and CRCs included", Value: c.SentBytes},
		{Name: "rcvd_bytes", Unit: bytes, Help: "bytes of streams received, headers and CRCs included",
			Value: c.RecvBytes},
		{Name: "sent_terminates", Unit: events, Help: "Terminate messages sent", Value: c.SentTerminates},
		{Name: "rcvd_terminates", Unit: events, Help: "Terminate messages received", Value: c.RecvTerminates},
		{Name: "crc_errors", Unit: events, Help: "FPDUs received with a wrong CRC", Value: c.CRCErrors},
		{Name: "lost_streams", Unit: events, Help: "streams that broke, or could not be made", Value: c.Lost},
		{Name: "stream_writes", Unit: events, Help: "writes to streams", Value: c.Writes},
		{Name: "stream_reads", Unit: events, Help: "reads from streams", Value: c.Reads},
	}
}

// QP is a queue pair.
type QP struct {
	queue.Pair
	Device *Device
	lane   *Lane
	// Trace is called for each segment that was appended to a batch or taken from the stream, with n bytes of payload.
	// For data that is sent, body is nil. Trace may be nil.
	Trace func(sent bool, h iwarp.Header, body []byte, n int)

	up bool // there is a stream
	Params
	sendQueue
	tx           sender
	rx           receiver
	terminateMsg *iwarp.Terminate // to be sent
	closing      bool             // the queued messages are the last ones
}

// New makes a queue pair of a lane in the RESET state. Its type is RC.
func New(d *Device, l *Lane, c queue.Config) *QP {
	return &QP{Pair: queue.NewPair(&d.Device, &l.Outbox, c), Device: d, lane: l}
}

// Stats sets the statistics of the queue pair.
func (q *QP) Stats(s *verbs.QPStats) {
	q.Pair.Stats(s)
	s.SendQueue, s.InFlight = q.sq.Len(), int(q.tx.queued-q.tx.sent)
}

// Up reports whether the queue pair has a stream.
func (q *QP) Up() bool { return q.up }

// Waiting reports whether work requests wait for a stream.
func (q *QP) Waiting() bool { return !q.up && q.sq.Len() > 0 && q.State() == verbs.StateRTS }

// Begin gives the queue pair a stream whose set-up is complete. The queue pair is in RTR or RTS, or
// goes from INIT to RTS: then the connection manager brings the stream.
func (q *QP) Begin(p Params) bool {
	if q.up || q.State() == verbs.StateReset || q.State() > verbs.StateSQD {
		return false
	}
	if q.State() == verbs.StateInit {
		q.SetState(verbs.StateRTS)
		q.Attr().MaxRdAtomic, q.Attr().MaxDestRdAtomic = uint8(min(p.ORD, 255)), uint8(min(p.IRD, 255))
	}
	q.up, q.Params = true, p
	q.tx.begin(&p)
	q.rx = receiver{held: q.rx.held, sendMSN: 1, readMSN: 1, atomicMSN: 1, land: q.rx.land}
	return true
}

// Lost ends a stream that broke, or that could not be established. The oldest work request gets
// RetryExceeded, because it is not known how far the peer came. A stream that the peer closed in an
// orderly way, which is not in the middle of a message, is just flushed.
func (q *QP) Lost(orderly bool) {
	orderly = orderly && !q.rx.inMessage && len(q.rx.part) == 0
	q.up = false
	if q.State() == verbs.StateError || q.State() == verbs.StateReset {
		return
	}
	q.lane.Counters.Lost++
	if !orderly && q.sq.Len() > 0 {
		q.fail(verbs.StatusRetryExceeded)
		return
	}
	if orderly {
		q.PeerClosed()
	} else {
		q.StreamFailed(verbs.Failure{Side: verbs.FailedStream, Status: verbs.StatusRetryExceeded,
			Reason: verbs.ReasonNoAnswer, Detail: "the stream broke"})
	}
	q.enterError()
	q.Raise(driver.EventQPBroken)
}

// Ending reports whether to close the stream once everything that NextFPDUs returned was sent.
func (q *QP) Ending() bool { return q.closing && q.terminateMsg == nil }

// fail completes the oldest send work request with a status and moves to ERR.
func (q *QP) fail(status verbs.Status) {
	if q.sq.Len() > 0 {
		q.CompleteSend(&q.sq.Front().SendWQE, status)
		q.popFront()
	}
	q.enterError()
	q.Raise(driver.EventQPBroken)
}

// enterError moves to ERR and flushes both queues.
func (q *QP) enterError() {
	if q.State() == verbs.StateError {
		return
	}
	q.SetState(verbs.StateError)
	q.closing = true
	q.flushSends()
	q.FlushReceives()
	q.tx.stop()
	q.rx.stop()
}
