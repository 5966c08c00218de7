// SPDX-License-Identifier: Apache-2.0

package local

import (
	"github.com/ramjet-rdma/ramjet/internal/base/queue"
	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/verbs/driver"
	"github.com/ramjet-rdma/ramjet/verbs/metric"
)

// Device has the facts of a device, which queue pairs of every lane work with.
type Device struct {
	queue.Device
	// Resolve reports whether an address vector can be used.
	Resolve func(*verbs.AHAttr) error
	// Persist begins to make memory persistent, and calls Flush.Done later; nil: there is no way to. Regions allow
	// FLUSH to persistence only if there is one.
	Persist func(*Flush)
	// Refuses is called for each message for which a receive is posted. If it returns true the message finds no
	// receive: a fault on request. nil: there are no such faults.
	Refuses func(*QP) bool
}

// Lane holds the counters, completions and scratch memory of queue pairs that work one after the other. The zero
// Lane is ready for use.
type Lane struct {
	Counters Counters
	Outbox   queue.Outbox
	word     [8]byte // of an operation on one
}

// Counters count events on a device.
type Counters struct {
	SentMessages, RecvMessages uint64             // through rings
	SentBytes, RecvBytes       uint64             // payload, by rings and otherwise
	Direct                     uint64             // one-sided operations in memory that is mapped here
	Crossed                    uint64             // copies to and from memory of peers that is not mapped here
	Asked                      uint64             // one-sided operations through the target's process
	Doorbells                  uint64             // peers that were woken
	Lost                       uint64             // peers
	Dropped                    [numReasons]uint64 // datagrams
}

// Metrics returns the counters.
func (c *Counters) Metrics() []metric.Metric {
	const messages, bytes, events = metric.UnitMessages, metric.UnitBytes, metric.UnitEvents
	list := []metric.Metric{
		{Name: "sent_msgs", Unit: messages, Help: "messages sent through rings", Value: c.SentMessages},
		{Name: "rcvd_msgs", Unit: messages, Help: "messages received through rings", Value: c.RecvMessages},
		{Name: "sent_bytes", Unit: bytes, Help: "payload sent, and written to peers' memory", Value: c.SentBytes},
		{Name: "rcvd_bytes", Unit: bytes, Help: "payload received, and read from peers' memory", Value: c.RecvBytes},
		{Name: "direct_ops", Unit: events, Help: "one-sided operations carried out by this process alone",
			Value: c.Direct},
		{Name: "crossed_copies", Unit: events,
			Help: "copies of the system to and from memory of peers that is not shared", Value: c.Crossed},
		{Name: "asked_ops", Unit: events, Help: "one-sided operations carried out by the target's process",
			Value: c.Asked},
		{Name: "woken_peers", Unit: events, Help: "times that a peer was told to look", Value: c.Doorbells},
		{Name: "lost_peers", Unit: events, Help: "peers that ended, or broke the rules", Value: c.Lost},
	}
	for r := taken + 1; r < numReasons; r++ {
		list = append(list, metric.Metric{Name: "dropped", Unit: messages,
			Help:   "datagrams dropped, before or after they were sent",
			Labels: []metric.Label{{Name: "reason", Value: r.String()}}, Value: c.Dropped[r]})
	}
	return list
}

// QP is a queue pair.
type QP struct {
	queue.Pair
	Device  *Device
	lane    *Lane
	peer    *Peer // nil: there is none
	depth   int   // initiator depth (ORD): READs and atomics that may be outstanding
	rings   bool  // the peer is to be woken
	pending bool  // the peer has done something for which it will not ring the doorbell
	ucPeer
	sendQueue
	initiator
	target
}

// New makes a queue pair of a lane in the RESET state. Its type is RC or UC.
func New(d *Device, l *Lane, c queue.Config) *QP {
	return &QP{Pair: queue.NewPair(&d.Device, &l.Outbox, c), Device: d, lane: l}
}

// Stats sets the statistics of the queue pair.
func (q *QP) Stats(s *verbs.QPStats) {
	q.Pair.Stats(s)
	s.SendQueue, s.InFlight = q.sq.Len(), 0
	if q.Type == verbs.RC {
		s.RNRRetry = q.Attr().RNRRetry
	}
	if q.peer != nil {
		s.RNRs += q.peer.requests.NotReady()
		s.InFlight = q.peer.requests.Flight()
		if s.InFlight == 0 && q.reads.Len() == 0 {
			s.SendQueue -= q.next // done, though not reaped
		}
	}
}

// Up reports whether the queue pair has a peer.
func (q *QP) Up() bool { return q.peer != nil }

// Waiting reports whether work requests wait for a peer.
func (q *QP) Waiting() bool { return q.peer == nil && q.sq.Len() > 0 && q.State() == verbs.StateRTS }

// Begin gives the queue pair its peer, with the inbound and outbound READs and atomics that may be outstanding
// (IRD and ORD). The queue pair is in RTR or RTS, or goes from INIT to RTS: then the connection manager
// brings the peer, and sets RNRRetry and MinRNRTimer.
func (q *QP) Begin(p *Peer, ird, ord uint16) bool {
	if q.peer != nil || q.State() == verbs.StateReset || q.State() > verbs.StateSQD {
		return false
	}
	q.absent = false
	if q.State() == verbs.StateInit {
		q.SetState(verbs.StateRTS)
		q.Attr().MaxRdAtomic, q.Attr().MaxDestRdAtomic = uint8(min(ord, 255)), uint8(min(ird, 255))
	}
	q.peer, q.depth, q.uncrossed = p, int(ord), false
	q.target = target{land: q.land, resp: q.resp}
	q.admit()
	return true
}

// admit publishes the operations that the peer may do by itself from now on.
func (q *QP) admit() { q.peer.admit(q.State(), q.Attr().Access) }

// Rings reports whether the peer sleeps and is to be woken, and counts that as done.
func (q *QP) Rings() bool {
	rings := q.rings
	q.rings = false
	if rings {
		q.lane.Counters.Doorbells++
	}
	return rings
}

// Lost ends a connection whose peer has gone. The oldest work request gets RetryExceeded, because it is
// not known how far the peer came, unless the peer ended the connection in an orderly way.
func (q *QP) Lost(orderly bool) {
	orderly = orderly && !q.inMessage
	if q.peer != nil {
		q.reap()
	}
	q.shut()
	q.Part()
	if q.State() == verbs.StateError || q.State() == verbs.StateReset {
		return
	}
	q.lane.Counters.Lost++
	if q.unreliable() {
		q.miss()
		return
	}
	if !orderly && q.sq.Len() > 0 {
		q.fail(verbs.StatusRetryExceeded)
		return
	}
	if orderly {
		q.PeerClosed()
	} else {
		q.StreamFailed(verbs.Failure{Side: verbs.FailedStream, Status: verbs.StatusRetryExceeded,
			Reason: verbs.ReasonNoAnswer, Detail: "the peer's process has gone"})
	}
	q.enterError()
	q.Raise(driver.EventQPBroken)
}

// DropPeer drops a peer whose process has ended, without an event for the program. The queue pair keeps its state,
// as on InfiniBand: nothing there reports that a peer has gone, and only requests to it fail. DropPeer returns
// false, and drops nothing, if work requests are in the send queue.
func (q *QP) DropPeer() bool {
	q.reap()
	if q.peer != nil && q.unreliable() {
		q.miss()
	}
	if q.peer == nil || q.sq.Len() > 0 {
		return false
	}
	q.resp.Clear()
	q.shut()
	q.Part()
	return true
}

// shut has a peer whose connection ends, but which may still run, begin no operation any more, nor receive messages
// whose work requests are flushed.
func (q *QP) shut() {
	if q.peer != nil {
		q.peer.Shut()
	}
}

// DropResponses drops the responses to a peer that has gone, so that the messages behind its requests are received.
func (q *QP) DropResponses() {
	q.resp.Clear()
	q.refusal = 0
}

// Ending reports whether to end the connection: there is nothing more to tell the peer.
func (q *QP) Ending() bool { return q.peer != nil && q.State() == verbs.StateError && q.refusal == 0 }

// Part ends the use of the peer's memory, which is about to be unmapped.
func (q *QP) Part() {
	if q.peer != nil {
		q.Counts.RNRs += q.peer.requests.NotReady()
	}
	q.peer = nil
	q.remoteCache = remoteLookup{}
}

// fail completes the oldest send work request with a status and moves to ERR, or for UC to SQE (IBTA 10.3.1.6).
func (q *QP) fail(status verbs.Status) {
	if q.sq.Len() > 0 {
		q.CompleteSend(&q.sq.Front().SendWQE, status)
		q.popFront()
	}
	if q.unreliable() {
		q.SetState(verbs.StateSQE)
		q.flushSends()
		q.initiator.stop()
		return
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
	if q.peer != nil {
		q.peer.admit(verbs.StateError, 0)
		if q.off == 0 { // the peer does not wait for the rest of a message
			q.peer.leave()
		}
	}
	q.flushSends()
	q.FlushReceives()
	q.stop()
}

// corrupt ends the connection with a peer that broke the rules.
func (q *QP) corrupt() {
	q.lane.Counters.Lost++
	q.refusal = 0
	if q.unreliable() { // it is unknown which messages the peer has received
		q.enterError()
		q.Raise(driver.EventQPBroken)
		return
	}
	q.fail(verbs.StatusRemoteOperationError)
}
