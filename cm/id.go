// SPDX-License-Identifier: Apache-2.0

package cm

import (
	"context"
	"net/netip"
	"sync"

	"github.com/ramjet-rdma/ramjet/verbs"
)

// ID is one end of a connection, a listener, or a datagram service (rdma_cm_id). Its calls start an
// operation and return. The outcome arrives as an event. All of them may be called from several
// goroutines.
type ID struct {
	dev   *verbs.Device // an open id keeps its device from being freed; the manager does not
	m     *manager
	ps    PortSpace
	calls sync.Mutex // held during calls that may have to wait for other processes

	// The manager's lock covers the rest.
	sink        sink
	state       state
	local, peer netip.AddrPort
	port        *port
	anyPort     bool // the program did not choose it
	anyAddr     bool // nor the address
	reuse       bool
	tos         uint8
	ackTimeout  uint8        // 0: not set
	rnrRetry    *uint8       // nil: as the peer asks
	qp          *verbs.QP    // created by CreateQP
	srq         bool         // it has a shared receive queue
	qpType      verbs.QPType // of the queue pairs to connect; 0: not set
	groups      []*membership
	ep          endpoint // the protocol's part
	failure     string   // why it is in the state failed; empty: the program has rejected a request
	unconfirmed bool     // accepted, and neither Established nor a failure has followed
	retry       connectRetry
	listed      listedID

	queries    context.Context // the context of pending queries; nil: there was none
	endQueries context.CancelFunc
}

// sink receives events. put does not block. It returns false if it drops them.
type sink interface {
	put(events ...*Event) bool
	take(match func(*Event) bool) []*Event
}

// state is the progress of an id.
type state uint8

const (
	idle state = iota
	bound
	addrQuery // ResolveAddr waits for an answer
	addrResolved
	routeQuery // ResolveRoute waits for an answer
	routeResolved
	listening
	connecting    // Connect was called
	replied       // the peer accepted; the program brings its queue pair to RTS
	requested     // a peer requests a connection
	accepting     // Accept was called
	established   // the connection stands, or a datagram service was found or offered
	disconnecting // Disconnect was called
	disconnected  //
	failed        // the attempt failed
	removed       // the device is gone
	closed
)

func (s state) String() string {
	return [...]string{"not bound", "bound", "being resolved to an address", "resolved to an address",
		"being resolved to a route", "resolved to a route", "listening", "connecting", "answered by the peer",
		"asked by a peer", "accepting", "connected", "disconnecting", "disconnected", "failed",
		"removed with its device", "closed"}[s]
}

// Acknowledgement timeouts, 4.096 µs × 2^t (IBTA 12.7.34): how long a queue pair waits before it
// retransmits. After about eight of them without an answer it fails.
const (
	// DefaultAckTimeout holds for both sides unless SetAckTimeout changes it: 0.27 s.
	DefaultAckTimeout = 16
	// MaxPeerAckTimeout limits the timeout that a request can give our queue pair: 8.6 s. A request
	// names the timeout of both sides. With the largest that the message can carry, a queue pair
	// would take most of a day to notice that its peer is gone.
	MaxPeerAckTimeout = 21
)

// NewID creates an id of a device whose events go to ch (rdma_create_id). It returns
// ErrNotSupported if the device has no connection manager, ErrBusy if another part of this process
// uses it.
func NewID(ch *EventChannel, dev *verbs.Device, ps PortSpace) (*ID, error) {
	ch.logWith(dev)
	return newID(ch, dev, ps)
}

func newID(s sink, dev *verbs.Device, ps PortSpace) (id *ID, err error) {
	end := beginNew(dev, ps)
	defer func() { end(id, err) }()
	if ps.String() == "unknown" {
		return nil, opErr("create_id", verbs.ErrInvalid, "port space %#x: TCP, UDP, IB or IPoIB", uint16(ps))
	}
	id = &ID{dev: dev, ps: ps, sink: s}
	if err := attachManager(id); err != nil {
		return nil, err
	}
	return id, nil
}

// request returns a new id for a request to the listener id. It inherits the listener's options.
func (id *ID) request() *ID {
	return &ID{dev: id.dev, m: id.m, ps: id.ps, sink: id.sink, state: requested, tos: id.tos, ackTimeout: id.ackTimeout,
		rnrRetry: id.rnrRetry, qpType: id.qpType}
}

// Device returns the device of the id.
func (id *ID) Device() *verbs.Device { return id.dev }

// PortSpace returns the port space that the id was created for.
func (id *ID) PortSpace() PortSpace { return id.ps }

// LocalAddr returns the id's own address and port. It is not valid while there is none.
func (id *ID) LocalAddr() netip.AddrPort {
	id.m.mu.Lock()
	defer id.m.mu.Unlock()
	return id.local
}

// PeerAddr returns the other side's address and port. It is not valid while there is none.
func (id *ID) PeerAddr() netip.AddrPort {
	id.m.mu.Lock()
	defer id.m.mu.Unlock()
	return id.peer
}

// lockIn takes the manager's lock and checks that the id is in one of the states. After an error the
// lock is not held.
func (id *ID) lockIn(op string, states ...state) error {
	id.m.mu.Lock()
	for _, s := range states {
		if id.state == s {
			return nil
		}
	}
	err := id.wrongState(op)
	id.m.unlock()
	return err
}

func (id *ID) wrongState(op string) error {
	switch id.state {
	case closed:
		return opErr(op, verbs.ErrClosed, "the id is closed")
	case removed:
		return opErr(op, verbs.ErrClosed, "the device is closed")
	case failed, disconnected:
		return opErr(op, ErrDisconnected, "%v to %v", id.local, id.peer)
	}
	return opErr(op, verbs.ErrState, "the id is %v%s", id.state, id.addrs())
}

// addrs returns the addresses for error texts.
func (id *ID) addrs() string {
	switch {
	case id.peer.IsValid():
		return " (" + id.local.String() + " to " + id.peer.String() + ")"
	case id.local.IsValid():
		return " (" + id.local.String() + ")"
	}
	return ""
}

// unanswered reports whether a peer's request is still unanswered.
func (id *ID) unanswered() bool {
	id.m.mu.Lock()
	defer id.m.mu.Unlock()
	return id.state == requested
}

// datagrams reports whether the port space is one of datagram services.
func (ps PortSpace) datagrams() bool { return ps == UDP || ps == IPoIB }

// deliver delivers an event.
func (id *ID) deliver(e *Event) bool { return id.sink.put(e) }

// end reports the end of the id's connection, request or service. A request that the program has not fetched
// vanishes without an event, which would take memory until the program fetches it.
func (id *ID) end(s state, e *Event) {
	if id.state == requested && len(id.sink.take(func(e *Event) bool { return e.ID == id })) > 0 {
		id.close()
		return
	}
	id.state, id.unconfirmed = s, false
	if s == failed && e.Err != nil {
		id.failure = e.Err.Error()
	}
	id.breakQP()
	e.ID = id
	id.deliver(e)
}

// confirmed reports that an accepted connection stands, once.
func (id *ID) confirmed(p ConnParam) {
	if !id.unconfirmed {
		return
	}
	id.unconfirmed = false
	if id.state == accepting {
		id.state = established
	}
	id.deliver(&Event{Type: Established, ID: id, Conn: p})
}

// orphaned reports that the listener of a request has rejected it, because it was closed.
func (id *ID) orphaned() {
	if id.state != requested {
		return
	}
	id.end(failed, &Event{Type: ConnectError,
		Err: opErr("accept", ErrDisconnected, "%v: its listener was closed", id.peer)})
}

// over reports the end of a connection, once. Before the end of an accepted connection the program
// gets Established in any case.
func (id *ID) over() {
	if id.state == disconnected {
		return
	}
	id.confirmed(id.ep.agreed())
	id.end(disconnected, &Event{Type: Disconnected})
}

// Migrate moves the id and its unfetched events to another channel (rdma_migrate_id). It does not
// wait.
func (id *ID) Migrate(ch *EventChannel) error {
	ch.logWith(id.dev)
	return id.migrate(ch)
}

func (id *ID) migrate(to sink) error {
	id.m.mu.Lock()
	defer id.m.mu.Unlock()
	if id.state == closed {
		return id.wrongState("migrate_id")
	}
	if to == id.sink {
		return nil
	}
	from := id.sink
	id.sink = to
	to.put(from.take(func(e *Event) bool {
		if e.Listener == id {
			e.ID.sink = to // later events go where the request is
		}
		return e.ID.m == id.m && e.ID.sink == to
	})...)
	return nil
}

// Close ends the id (rdma_destroy_id). A listener stops and rejects pending requests: a ConnectError
// follows on requests that the program has fetched. A connection is disconnected without waiting for the
// peer. A request is rejected. The id's queue pair is destroyed (rdma_destroy_qp). Closing twice is
// harmless.
//
// The device's manager makes sure that the peer learns of the end, even after the last id was
// closed. Closing the device ends that.
func (id *ID) Close() (ret error) {
	defer id.begin("rdma_destroy_id")(&ret)
	id.calls.Lock()
	defer id.calls.Unlock()
	id.m.mu.Lock()
	defer id.m.unlock()
	return id.close()
}

// close is Close with the lock held.
func (id *ID) close() error {
	if id.state == closed {
		return nil
	}
	dead := id.state == removed
	if id.state == listening {
		id.ep.unlisten()
	}
	if !dead {
		id.ep.release()
	}
	for _, e := range id.sink.take(func(e *Event) bool { return e.ID == id || e.Listener == id }) {
		if e.ID != id {
			e.ID.close() // a request that the program has not fetched
		}
	}
	id.m.unbindPort(id)
	id.state = closed
	delete(id.m.ids, id)
	id.m.idList.Remove(&id.listed)
	if id.endQueries != nil {
		id.endQueries()
	}
	for _, g := range id.groups {
		id.leaveGroup(g)
	}
	id.groups = nil
	if id.qp == nil {
		return nil
	}
	return id.qp.Close()
}
