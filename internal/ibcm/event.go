// SPDX-License-Identifier: Apache-2.0

package ibcm

import (
	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/wire/mad"
)

// EventKind says what happened.
type EventKind uint8

const (
	_ EventKind = iota
	// EventRequest: a REQ for a listener came; Event.REQ has it. Answer with Accept or Reject,
	// before the peer loses patience; MRA asks for more of it.
	EventRequest
	// EventReply: a REP came; Event.REP has it. Answer with Ready or Reject.
	EventReply
	// EventEstablished: an accepted connection is established, by an RTU (Event.Private has
	// its private data) or by Established.
	EventEstablished
	// EventRejected: a REJ came; Event.REJ has it. Or one that says "stale connection" was sent,
	// as the peer spoke of this connection's QP in another: then Event.REJ is what it would
	// have said.
	EventRejected
	// EventUnreachable: the peer does not answer a REQ, a REP or a SIDR_REQ: Event.Message
	// says which. Message is 0 where a request of the peer was not answered, and has given its
	// place in the backlog to another.
	EventUnreachable
	// EventDisconnected: a DREQ or a DREP came, or no answer to our DREQ. The QP belongs into
	// the error state. Event.Private has the DREQ's or the DREP's private data.
	EventDisconnected
	// EventTimeWaitExit: after EventDisconnected; nothing of the connection is under way any
	// more, the number of its QP may be used again.
	EventTimeWaitExit
	// EventPatience: an MRA came; Event.Private has its private data. It takes longer.
	EventPatience
	// EventServiceRequest: a SIDR_REQ for a listener came; Event.SIDRREQ has it. Answer with
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
	case EventPatience:
		return "patience"
	case EventServiceRequest:
		return "service request"
	case EventService:
		return "service"
	}
	return "no event"
}

// Final says whether the engine has forgotten the connection with this event.
func (k EventKind) Final() bool {
	switch k {
	case EventRejected, EventUnreachable, EventTimeWaitExit, EventService:
		return true
	}
	return false
}

// Event is something that whoever runs the engine has to know. The memory that
// it points to is the receiver's.
type Event struct {
	Kind     EventKind
	ID       mad.CommID    // the connection, or the resolution
	Listener mad.ServiceID // of EventRequest, EventServiceRequest: what Listen was called with
	From     verbs.AHAttr  // of EventRequest, EventServiceRequest: the way to the peer

	REQ     *mad.REQ     // of EventRequest
	REP     *mad.REP     // of EventReply
	REJ     *mad.REJ     // of EventRejected
	SIDRREQ *mad.SIDRREQ // of EventServiceRequest
	SIDRREP *mad.SIDRREP // of EventService

	Message mad.Attribute // of EventUnreachable: what was not answered; 0: nothing was said yet
	Private []byte        // the message's private data, all bytes of it that the wire has; may be nil
}

// Out is a datagram to send, from queue pair 1 to queue pair 1.
type Out struct {
	To  verbs.AHAttr
	MAD [mad.Size]byte
}
