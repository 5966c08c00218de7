// SPDX-License-Identifier: Apache-2.0

package ibcm

import (
	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/wire/ib"
	"github.com/ramjet-rdma/ramjet/wire/mad"
)

// EventKind is the kind of an event.
type EventKind uint8

const (
	_ EventKind = iota
	// EventRequest: a REQ for a listener arrived; Event.REQ has it. Answer with Accept or Reject
	// before the peer gives up; MRA asks for more time.
	EventRequest
	// EventReply: a REP arrived; Event.REP has it. Answer with Ready or Reject.
	EventReply
	// EventEstablished: an accepted connection is established, by an RTU (Event.Private has
	// its private data), by Established, or by a DREQ that came before the RTU.
	EventEstablished
	// EventRejected: a REJ arrived; Event.REJ has it. Or a REJ with reason "stale connection" was
	// sent, because the peer used this connection's QP in another request: then Event.REJ is as the
	// peer's would have been.
	EventRejected
	// EventUnreachable: the peer does not answer a REQ, a REP or a SIDR_REQ; Event.Message says
	// which. Message is 0 if a request of the peer was not answered, and has given its place in the
	// backlog to another.
	EventUnreachable
	// EventDisconnected: a DREQ or a DREP arrived, or no answer to our DREQ, or a REJ because the peer
	// does not know the connection. Of an accepted connection EventEstablished comes first, unless Disconnect
	// was called. Move the QP to the error state. Event.Private has the DREQ's or the DREP's private data.
	EventDisconnected
	// EventTimeWaitExit: after EventDisconnected; nothing of the connection is in flight any more,
	// and the number of its QP may be reused.
	EventTimeWaitExit
	// EventMRA: an MRA arrived, so the answer takes longer; Event.Private has its private
	// data.
	EventMRA
	// EventServiceRequest: a SIDR_REQ for a listener arrived; Event.SIDRREQ has it. Answer with
	// Serve.
	EventServiceRequest
	// EventService: the answer to Resolve; Event.SIDRREP has it.
	EventService
)

// String returns the kind's name.
func (k EventKind) String() string {
	switch k {
	case EventRequest:
		return "request"
	case EventReply:
		return "reply"
	case EventEstablished:
		return "established"
	case EventRejected:
		return "rejected"
	case EventUnreachable:
		return "unreachable"
	case EventDisconnected:
		return "disconnected"
	case EventTimeWaitExit:
		return "time wait exit"
	case EventMRA:
		return "patience"
	case EventServiceRequest:
		return "service request"
	case EventService:
		return "service"
	}
	return "no event"
}

// Final reports whether the engine drops the connection with this event.
func (k EventKind) Final() bool {
	switch k {
	case EventRejected, EventUnreachable, EventTimeWaitExit, EventService:
		return true
	}
	return false
}

// Event is an event for the engine's caller. The receiver owns the memory that it points to.
type Event struct {
	Kind     EventKind
	ID       mad.CommID    // the connection, or the resolution
	Listener mad.ServiceID // of EventRequest, EventServiceRequest: the service given to Listen
	From     verbs.AHAttr  // of EventRequest, EventServiceRequest: the path to the peer

	REQ     *mad.REQ     // of EventRequest
	REP     *mad.REP     // of EventReply
	REJ     *mad.REJ     // of EventRejected
	SIDRREQ *mad.SIDRREQ // of EventServiceRequest
	SIDRREP *mad.SIDRREP // of EventService

	Message mad.Attribute // of EventUnreachable: the unanswered message; 0: none was sent yet
	Private []byte        // the message's private data, in the length of the wire; may be nil
}

// Datagram is a datagram to send, from queue pair 1 to queue pair 1.
type Datagram struct {
	To   verbs.AHAttr
	PKey ib.PKey // 0: the default partition
	MAD  [mad.Size]byte
}
