// SPDX-License-Identifier: Apache-2.0

package verbs

import (
	"context"
	"sync"
	"weak"
)

// EventType is the kind of an asynchronous event (IBTA 11.6.3). All are declared, as programs
// have a case for each; those that nothing in a device in software can bring about are never
// raised.
type EventType uint8

const (
	EventCQError          EventType = iota // the completion queue overflowed
	EventQPFatal                           // the queue pair went to ERR, and no completion says why
	EventQPRequestError                    // a peer asked for what is invalid
	EventQPAccessError                     // a peer asked for what it may not
	EventCommEstablished                   // the first packet has come, in RTR
	EventSQDrained                         // in SQD, if [QPAttr.SQDAsyncNotify] asked for it
	EventPathMigrated                      // never raised: there are no alternate paths
	EventPathMigrateError                  // never raised, as the one before
	EventDeviceFatal                       // never raised: a device in software does not fail as a whole
	EventPortActive                        // the port is active again
	EventPortError                         // the port is down; see [PortAttr.State]
	EventLIDChange                         // never raised: IP has no LIDs
	EventPKeyChange                        // never raised: the table has the default partition only
	EventSMChange                          // never raised: IP has no subnet manager
	EventSRQError                          // never raised: a shared receive queue does not fail
	EventSRQLimitReached                   // fewer receives are left than its limit
	EventQPLastWQEReached                  // a queue pair in ERR takes no more of its shared receive queue
	EventClientReregister                  // never raised: IP has no subnet manager
	EventGIDChange                         // the port's address has gone, or has come back
	// EventQPBroken: an error of the queue pair's own sends took it to ERR. Its completions say
	// so to the program; this event is for [QP.Watch] only.
	EventQPBroken
)

func (t EventType) String() string {
	return name([]string{"CQ error", "local work queue catastrophic error", "invalid request local work queue error",
		"local access violation work queue error", "communication established", "send queue drained", "path migrated",
		"path migration request error", "local catastrophic error", "port active", "port error", "LID change", "PKey change",
		"SM change", "SRQ catastrophic error", "SRQ limit reached", "last WQE reached", "client reregistration", "GID table change", "queue pair broken"}, t)
}

// Event is an asynchronous event; the object that it is about is set, the others are nil.
// All are nil if the program has dropped the object meanwhile.
type Event struct {
	Type EventType
	CQ   *CQ
	QP   *QP
	SRQ  *SRQ
	Port int
}

// maxEvents bounds the events that nobody has fetched; older ones make room for newer.
const maxEvents = 1024

// eventQueue holds the asynchronous events of a device until the program fetches them. The
// driver reaches it, so that it keeps neither the objects nor the device alive.
type eventQueue struct {
	mu     sync.Mutex
	events []queuedEvent
	ready  chan struct{}
	closed bool
}

// queuedEvent is an Event whose object may have been dropped since.
type queuedEvent struct {
	typ  EventType
	port int
	cq   weak.Pointer[CQ]
	qp   weak.Pointer[QP]
	srq  weak.Pointer[SRQ]
}

func (e *queuedEvent) event() Event {
	return Event{Type: e.typ, Port: e.port, CQ: e.cq.Value(), QP: e.qp.Value(), SRQ: e.srq.Value()}
}

func newEventQueue() *eventQueue { return &eventQueue{ready: make(chan struct{}, 1)} }

func (q *eventQueue) put(e queuedEvent) {
	q.mu.Lock()
	if len(q.events) == maxEvents {
		q.events = append(q.events[:0], q.events[1:]...)
	}
	q.events = append(q.events, e)
	q.mu.Unlock()
	q.signal()
}

func (q *eventQueue) signal() {
	select {
	case q.ready <- struct{}{}:
	default:
	}
}

func (q *eventQueue) close() {
	q.mu.Lock()
	q.closed = true
	q.mu.Unlock()
	q.signal()
}

func (q *eventQueue) get(ctx context.Context) (Event, error) {
	for {
		q.mu.Lock()
		if len(q.events) > 0 {
			e := q.events[0].event()
			q.events = q.events[1:]
			more := len(q.events) > 0
			q.mu.Unlock()
			if more {
				q.signal()
			}
			return e, nil
		}
		closed := q.closed
		q.mu.Unlock()
		if closed {
			q.signal() // for others who wait
			return Event{}, opErr("get_async_event", ErrClosed, "")
		}
		select {
		case <-q.ready:
		case <-ctx.Done():
			return Event{}, ctx.Err()
		}
	}
}
