// SPDX-License-Identifier: Apache-2.0

package cm

import (
	"net/netip"
	"sync"

	"github.com/ramjet-rdma/ramjet/verbs"
)

// ID is one end of a connection to be, a listener, or a datagram service (rdma_cm_id). Its
// calls start something and return; what becomes of it arrives as events. All of them may
// be made from several goroutines.
type ID struct {
	m     *manager
	ps    PortSpace
	calls sync.Mutex // held during those calls that may have to wait for other processes

	// The manager's lock covers the rest.
	sink        sink
	state       state
	local, peer netip.AddrPort
	port        *port
	anyPort     bool // the program did not choose it
	reuse       bool
	tos         uint8
	ackTimeout  uint8        // 0: not set
	qp          *verbs.QP    // made by CreateQP
	srq         bool         // it has a shared receive queue
	qpType      verbs.QPType // of the queue pairs to connect; 0: not set
	groups      []netip.Addr
	ib          *ibConn
	stream      verbs.Stream // where connections are streams
	again       another
}

// sink is where events go. put does not block; false: they vanished.
type sink interface {
	put(events ...*Event) bool
	take(match func(*Event) bool) []*Event
}

// state is how far an id has come.
type state uint8

const (
	idle state = iota
	bound
	addrResolved
	routeResolved
	listening
	connecting    // Connect was called
	replied       // the peer accepted, the program brings its queue pair to RTS
	requested     // a peer asks
	accepting     // Accept was called
	established   // the connection stands, or a datagram service was found or offered
	disconnecting // Disconnect was called
	disconnected  //
	failed        // the connection was not made
	removed       // the device is gone
	closed
)

func (s state) String() string {
	return [...]string{"not bound", "bound", "resolved to an address", "resolved to a route", "listening", "connecting",
		"answered by the peer", "asked by a peer", "accepting", "connected", "disconnecting", "disconnected", "failed",
		"removed with its device", "closed"}[s]
}

// Acknowledgement timeouts (IBTA 12.7.34), 4.096 µs × 2^t: how long a queue pair waits before it
// sends again. After some eight of them without an answer it fails.
const (
	// DefaultAckTimeout is what both sides have unless SetAckTimeout changes it: 0.27 s.
	DefaultAckTimeout = 16
	// MaxPeerAckTimeout is the longest that a peer who asks for a connection can give our queue
	// pair: 8.6 s. It names the timeout of both sides; with the longest that the message has, a
	// queue pair would notice after most of a day that its peer is gone.
	MaxPeerAckTimeout = 21
)

// NewID makes an id of a device whose events go to ch (rdma_create_id). ErrNotSupported if
// the device has no connection manager, ErrBusy if another part of this process uses it.
func NewID(ch *EventChannel, dev *verbs.Device, ps PortSpace) (*ID, error) {
	return newID(ch, dev, ps)
}

func newID(s sink, dev *verbs.Device, ps PortSpace) (*ID, error) {
	if ps.String() == "unknown" {
		return nil, opErr("create_id", verbs.ErrInvalid, "port space %#x: TCP, UDP, IB or IPoIB", uint16(ps))
	}
	id := &ID{ps: ps, sink: s}
	if err := enter(id, dev); err != nil {
		return nil, err
	}
	return id, nil
}

// Device returns the device of the id.
func (id *ID) Device() *verbs.Device { return id.m.dev }

// PortSpace returns what the id was made for.
func (id *ID) PortSpace() PortSpace { return id.ps }

// LocalAddr returns the id's own address and port, not valid: it has none yet.
func (id *ID) LocalAddr() netip.AddrPort {
	id.m.mu.Lock()
	defer id.m.mu.Unlock()
	return id.local
}

// PeerAddr returns the other side's address and port, not valid: there is none.
func (id *ID) PeerAddr() netip.AddrPort {
	id.m.mu.Lock()
	defer id.m.mu.Unlock()
	return id.peer
}

// in takes the manager's lock and makes sure that the id is in one of the states. After an
// error the lock is not held.
func (id *ID) in(op string, states ...state) error {
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
	return opErr(op, verbs.ErrState, "the id is %v%s", id.state, id.where())
}

// where names the addresses for errors.
func (id *ID) where() string {
	switch {
	case id.peer.IsValid():
		return " (" + id.local.String() + " to " + id.peer.String() + ")"
	case id.local.IsValid():
		return " (" + id.local.String() + ")"
	}
	return ""
}

// asks says whether a peer still waits for an answer.
func (id *ID) asks() bool {
	id.m.mu.Lock()
	defer id.m.mu.Unlock()
	return id.state == requested
}

// datagrams says whether the id is about datagram services.
func (ps PortSpace) datagrams() bool { return ps == UDP || ps == IPoIB }

// tell hands an event to whoever watches the id.
func (id *ID) tell(e *Event) bool { return id.sink.put(e) }

// end tells of the end of what the id was doing. Of a request that nobody has seen nobody needs to
// hear; it would take memory for as long as nobody looks.
func (id *ID) end(s state, e *Event) {
	if id.state == requested && len(id.sink.take(func(e *Event) bool { return e.ID == id })) > 0 {
		id.close()
		return
	}
	id.state = s
	id.breakQP()
	e.ID = id
	id.tell(e)
}

// Migrate moves the id and its events that nobody has fetched to another channel
// (rdma_migrate_id). It waits for nobody.
func (id *ID) Migrate(ch *EventChannel) error { return id.migrate(ch) }

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
			e.ID.sink = to // what follows goes where the request is
		}
		return e.ID.m == id.m && e.ID.sink == to
	})...)
	return nil
}

// Close ends whatever the id does: a listener stops, with what waits to be accepted; a
// connection is disconnected without waiting for the peer; a request is rejected. Its queue
// pair is closed (rdma_destroy_id, rdma_destroy_qp). Closing twice is harmless.
//
// The device's manager sees to it that the peer learns of the end, also after the last id
// has been closed; closing the device ends that.
func (id *ID) Close() error {
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
		id.m.proto.unlisten(id)
	}
	if !dead {
		id.m.proto.release(id)
	}
	for _, e := range id.sink.take(func(e *Event) bool { return e.ID == id || e.Listener == id }) {
		if e.ID != id {
			e.ID.close() // a request that nobody has seen
		}
	}
	id.m.leave(id)
	id.state = closed
	delete(id.m.ids, id)
	if id.qp == nil {
		return nil
	}
	for _, g := range id.groups {
		id.qp.DetachMulticast(groupID(g), 0)
	}
	id.groups = nil
	return id.qp.Close()
}
