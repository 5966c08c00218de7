// SPDX-License-Identifier: Apache-2.0

package verbs

import (
	"context"
	"sync"
	"weak"

	"github.com/ramjet-rdma/ramjet/verbs/internal/hook"
)

// EventType is the kind of an asynchronous event (IBTA 11.6.3). All kinds are declared, because programs
// have a case for each. A software device never raises a kind that only hardware can meet.
type EventType uint8

const (
	EventCQError          EventType = iota // the completion queue overflowed
	EventQPFatal                           // the queue pair went to ERR, and no completion tells why
	EventQPRequestError                    // a peer sent an invalid request
	EventQPAccessError                     // a peer requested an access that is not allowed
	EventCommEstablished                   // the first packet has arrived, in RTR
	EventSQDrained                         // in SQD, if [QPAttr.SQDAsyncNotify] requested it
	EventPathMigrated                      // never raised: there are no alternate paths
	EventPathMigrateError                  // never raised, as the one before
	// raised by a fault on request only: a software device does not fail as a whole
	EventDeviceFatal
	EventPortActive       // the port is active again
	EventPortError        // the port is down; see [PortAttr.State]
	EventLIDChange        // the port has another LID; never on Ethernet
	EventPKeyChange       // the port's partitions have changed; never on Ethernet
	EventSMChange         // the port has another subnet manager; never on Ethernet
	EventSRQError         // never raised: a shared receive queue does not fail
	EventSRQLimitReached  // fewer receives are left than the limit
	EventQPLastWQEReached // a queue pair in ERR takes no more receives from its shared receive queue
	EventClientReregister // the subnet manager lost its records, such as joins; never on Ethernet
	EventGIDChange        // a GID of the port is new or gone: on Ethernet its address
)

// String describes the event in ibv_event_type_str's words.
func (t EventType) String() string {
	if t == hook.EventQPBroken { // programs do not get it
		return "queue pair broken"
	}
	return name([]string{"CQ error", "local work queue catastrophic error", "invalid request local work queue error",
		"local access violation work queue error", "communication established", "send queue drained", "path migrated",
		"path migration request error", "local catastrophic error", "port active", "port error", "LID change",
		"PKey change", "SM change", "SRQ catastrophic error", "SRQ limit reached", "last WQE reached",
		"client reregistration",
		"GID table change"}, t)
}

// Event is an asynchronous event. The object that it concerns is set, the others are nil. All are
// nil if the program has dropped the object meanwhile.
type Event struct {
	Type EventType
	CQ   *CQ
	QP   *QP
	SRQ  *SRQ
	Port int
}

// maxEvents limits the events that wait for [Device.Event]. The oldest are dropped.
const maxEvents = 1024

// eventQueue holds the asynchronous events of a device until the program fetches them. The driver
// can reach it, so it keeps neither the objects nor the device alive.
type eventQueue struct {
	mu     sync.Mutex
	events []queuedEvent
	ready  chan struct{}
	closed bool

	watchers []func(EventType, int) // of events of the device as a whole
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

func (q *eventQueue) watch(f func(EventType, int)) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.watchers = append(q.watchers, f)
}

func (q *eventQueue) notifyWatchers(t EventType, port int) {
	q.mu.Lock()
	watchers := q.watchers
	q.mu.Unlock()
	for _, f := range watchers {
		f(t, port)
	}
}

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
			q.signal() // for other waiters
			return Event{}, opErr("get_async_event", ErrClosed, "")
		}
		select {
		case <-q.ready:
		case <-ctx.Done():
			return Event{}, ctx.Err()
		}
	}
}
