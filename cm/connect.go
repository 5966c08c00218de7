// SPDX-License-Identifier: Apache-2.0

package cm

import (
	"errors"
	"net/netip"

	"github.com/ramjet-rdma/ramjet/verbs"
)

// DefaultBacklog is how many connections wait at a listener that does not say.
const DefaultBacklog = 1024

// Listen makes the id take connections to its address (rdma_listen), of which at most
// backlog wait to be accepted. 0 or less stands for DefaultBacklog. Each arrives as a
// ConnectRequest, on the listener's channel. An id that is not bound gets any port.
//
// A request that finds no room takes the place of one whose peer was silent for 10 s, or of one of
// an address that has most of the places. Where there is none it is dropped: honest peers ask
// again. As many connections as the backlog says, and at least 128, may be accepted and not
// confirmed by their peers; of these the one that was silent for longest gives way to new requests,
// if that is a quarter of a second or more. What gives way ends with Unreachable, or without a
// word if nobody has fetched the request.
func (id *ID) Listen(backlog int) error {
	const op = "listen"
	id.calls.Lock()
	defer id.calls.Unlock()
	if backlog <= 0 {
		backlog = DefaultBacklog
	}
	if err := id.in(op, idle, bound); err != nil {
		return err
	}
	if id.qpType == verbs.XRCIni {
		id.m.unlock()
		return opErr(op, verbs.ErrInvalid, "an XRC initiator asks for connections: requests go to ids of type %v", verbs.XRCTgt)
	}
	if id.state == idle {
		if err := id.bind(netip.AddrPort{}); err != nil {
			id.m.unlock()
			return err
		}
	}
	if id.port.listening || id.port.users > 1 && !id.reuse {
		at := id.local
		id.m.unlock()
		return inUse(op, id.ps, at)
	}
	err := id.claim(backlog)
	defer id.m.unlock()
	for tries := 1; tries < anyTries && errors.Is(err, verbs.ErrBusy) && id.state == listening && id.m.another(id); tries++ {
		err = id.claim(backlog)
	}
	if id.state != listening {
		return id.wrongState(op) // the device went away
	}
	switch {
	case err == nil:
		return nil
	case id.port == nil:
		id.state, id.local = idle, netip.AddrPort{}
	default:
		id.state, id.port.listening = bound, false
	}
	if errors.Is(err, verbs.ErrBusy) {
		return inUse(op, id.ps, id.local)
	}
	return err
}

// claim makes the id a listener, first as far as this process is concerned, and reserves its port
// among the processes of its address. That may take a while: the lock is given up meanwhile.
func (id *ID) claim(backlog int) error {
	id.state, id.port.listening = listening, true
	id.m.unlock()
	err := id.m.proto.claim(id)
	id.m.mu.Lock()
	if err == nil && id.state == listening {
		err = id.m.proto.listen(id, backlog)
	}
	return err
}

// Connect asks the resolved address for a connection, or, in the datagram port spaces, for
// the number of the queue pair behind it (rdma_connect). nil stands for DefaultConnParam.
//
// Established, Rejected, Unreachable or ConnectError follows; if the program owns the
// queue pair, ConnectResponse instead of the first. ErrInvalid if the address was resolved
// without a port.
func (id *ID) Connect(p *ConnParam) error {
	if p == nil {
		p = &DefaultConnParam
	}
	if err := id.in("connect", routeResolved); err != nil {
		return err
	}
	defer id.m.unlock()
	max, _, _ := id.m.proto.limits(id)
	if err := id.fits("connect", p.PrivateData, max); err != nil {
		return err
	}
	if id.qpType == verbs.XRCTgt {
		return opErr("connect", verbs.ErrInvalid, "an XRC target is asked for connections: Connect is for ids of type %v", verbs.XRCIni)
	}
	if id.qp == nil && p.QPNum == 0 && !id.ps.datagrams() {
		return opErr("connect", verbs.ErrInvalid, "no queue pair: CreateQP, or ConnParam.QPNum")
	}
	if id.peer.Port() == 0 && !id.ps.datagrams() {
		return opErr("connect", verbs.ErrInvalid, "%v has no port to connect to", id.peer)
	}
	if err := id.m.proto.connect(id, p); err != nil {
		return err
	}
	id.state = connecting
	id.again.starts(p)
	return nil
}

// Accept takes the connection of a ConnectRequest (rdma_accept). nil stands for the
// peer's own wishes, as far as the device can. Depths are brought down to what the peer
// can do. Established follows, for connections; a datagram service has been told
// everything with Accept.
func (id *ID) Accept(p *ConnParam) error {
	if p == nil {
		p = &DefaultConnParam
	}
	if err := id.in("accept", requested); err != nil {
		return err
	}
	defer id.m.unlock()
	_, max, _ := id.m.proto.limits(id)
	if err := id.fits("accept", p.PrivateData, max); err != nil {
		return err
	}
	if id.qp == nil && p.QPNum == 0 {
		return opErr("accept", verbs.ErrInvalid, "no queue pair: CreateQP, or ConnParam.QPNum")
	}
	if err := id.m.proto.accept(id, p); err != nil {
		return err
	}
	id.state = accepting
	if id.ps.datagrams() {
		id.state = established
	}
	return nil
}

// Reject turns the connection of a ConnectRequest down, or that of a ConnectResponse, and
// tells the peer why (rdma_reject).
func (id *ID) Reject(privateData []byte) error {
	if err := id.in("reject", requested, replied); err != nil {
		return err
	}
	defer id.m.unlock()
	_, _, max := id.m.proto.limits(id)
	if err := id.fits("reject", privateData, max); err != nil {
		return err
	}
	if err := id.m.proto.reject(id, privateData); err != nil {
		return err
	}
	id.state = failed
	return nil
}

// fits checks the length of private data.
func (id *ID) fits(op string, b []byte, max int) error {
	if len(b) > max {
		return opErr(op, verbs.ErrInvalid, "%d bytes of private data, %d fit%s", len(b), max, id.where())
	}
	return nil
}

// Establish completes a connection after ConnectResponse, once the program has brought its
// queue pair to RTS (rdma_establish).
func (id *ID) Establish() error {
	if err := id.in("establish", replied); err != nil {
		return err
	}
	defer id.m.unlock()
	if err := id.m.proto.ready(id); err != nil {
		return err
	}
	id.state = established
	return nil
}

// Notify tells the manager of an event of the id's queue pair (rdma_notify):
// EventCommEstablished means that the peer is sending already, whatever became of its last
// message; Established follows if it has not come yet. Other events change nothing.
func (id *ID) Notify(ev verbs.EventType) error {
	if err := id.in("notify", accepting, established, disconnecting, disconnected); err != nil {
		return err
	}
	defer id.m.unlock()
	if ev != verbs.EventCommEstablished || id.state != accepting {
		return nil
	}
	return id.m.proto.established(id)
}

// Disconnect ends the connection: the queue pair goes to the error state, work requests
// are flushed, and the peer is told (rdma_disconnect). Disconnected follows on both sides;
// here once the peer has answered or does not. Disconnecting again, or after the peer did,
// is harmless.
func (id *ID) Disconnect() error {
	if err := id.in("disconnect", accepting, established, disconnecting, disconnected); err != nil {
		return err
	}
	defer id.m.unlock()
	if id.state >= disconnecting || id.ps.datagrams() {
		return nil
	}
	id.breakQP()
	id.state = disconnecting
	return id.m.proto.disconnect(id)
}
