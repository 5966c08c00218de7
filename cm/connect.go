// SPDX-License-Identifier: Apache-2.0

package cm

import (
	"errors"
	"net/netip"

	"github.com/ramjet-rdma/ramjet/internal/core/faults"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// DefaultBacklog is the backlog of a listener that names none.
const DefaultBacklog = 1024

// Listen makes the id accept connection requests to its address (rdma_listen). At most backlog of
// them wait to be accepted; 0 or less stands for DefaultBacklog. Each arrives as a ConnectRequest
// on the listener's channel. An id that is not bound gets any port.
//
// A request that finds the backlog full replaces one whose peer was silent for 10 s, or one of an
// address that has most of the places. Otherwise it is dropped: honest peers repeat it. As many
// connections as the backlog, and at least 128, may be accepted and not confirmed by their peers.
// Of these the one that was silent longest gives way to new requests, if that is a quarter of a
// second or more. A request that gives way ends with Unreachable, or without an event if nobody has
// fetched it.
func (id *ID) Listen(backlog int) (ret error) {
	defer id.begin("rdma_listen", arg("backlog", backlog))(&ret)
	const op = "listen"
	id.calls.Lock()
	defer id.calls.Unlock()
	if backlog <= 0 {
		backlog = DefaultBacklog
	}
	if err := id.lockIn(op, idle, bound); err != nil {
		return err
	}
	if id.qpType == verbs.XRCIni {
		id.m.unlock()
		return opErr(op, verbs.ErrInvalid, "an XRC initiator asks for connections: requests go to ids of type %v",
			verbs.XRCTgt)
	}
	if id.state == idle {
		if err := id.bind(netip.AddrPort{}, netip.Addr{}); err != nil {
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
	for tries := 1; tries < anyTries && errors.Is(err, verbs.ErrBusy) && id.state == listening &&
		id.m.rebindPort(id); tries++ {
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

// claim makes the id a listener, first within this process, and reserves its port among the
// processes of its address. That may take a while: the lock is released meanwhile.
func (id *ID) claim(backlog int) error {
	id.state, id.port.listening = listening, true
	id.m.unlock()
	err := id.ep.claim()
	id.m.mu.Lock()
	if err == nil && id.state == listening {
		err = id.ep.listen(backlog)
	}
	return err
}

// Connect requests a connection from the resolved address, or, in the datagram port spaces, the
// number of the queue pair behind it (rdma_connect). nil stands for DefaultConnParam.
//
// Established, Rejected, Unreachable or ConnectError follows. If the program owns the queue pair,
// ConnectResponse follows instead of Established, but not over iWARP and shared memory. Connect returns ErrInvalid if
// the address was resolved without a port.
func (id *ID) Connect(p *ConnParam) (ret error) {
	defer id.begin("rdma_connect", connArg(p))(&ret)
	if p == nil {
		p = &DefaultConnParam
	}
	if err := id.lockIn("connect", routeResolved); err != nil {
		return err
	}
	defer id.m.unlock()
	max, _, _ := id.ep.limits()
	if err := id.fits("connect", p.PrivateData, max); err != nil {
		return err
	}
	if id.qpType == verbs.XRCTgt {
		return opErr("connect", verbs.ErrInvalid,
			"an XRC target is asked for connections: Connect is for ids of type %v", verbs.XRCIni)
	}
	if id.qp == nil && p.QPNum == 0 && !id.ps.datagrams() {
		return opErr("connect", verbs.ErrInvalid, "no queue pair: CreateQP, or ConnParam.QPNum")
	}
	if id.peer.Port() == 0 && !id.ps.datagrams() {
		return opErr("connect", verbs.ErrInvalid, "%v has no port to connect to", id.peer)
	}
	if why := rejects(id.m.drv, faults.Sent, id.peer.Addr()); why != 0 {
		id.rejectedHere(why)
		return nil
	}
	if err := id.ep.connect(p); err != nil {
		return err
	}
	id.state = connecting
	id.retry.record(p)
	return nil
}

// Accept accepts a ConnectRequest (rdma_accept). nil stands for the peer's own parameters, as far
// as the device supports them. Depths are reduced to the peer's limits. For connections
// Established follows; a datagram service is complete with Accept.
func (id *ID) Accept(p *ConnParam) (ret error) {
	defer id.begin("rdma_accept", connArg(p))(&ret)
	if p == nil {
		p = &DefaultConnParam
	}
	if err := id.lockIn("accept", requested); err != nil {
		return err
	}
	defer id.m.unlock()
	_, max, _ := id.ep.limits()
	if err := id.fits("accept", p.PrivateData, max); err != nil {
		return err
	}
	if id.qp == nil && p.QPNum == 0 {
		return opErr("accept", verbs.ErrInvalid, "no queue pair: CreateQP, or ConnParam.QPNum")
	}
	if err := id.ep.accept(p); err != nil {
		return err
	}
	if id.ps.datagrams() {
		id.state = established
		return nil
	}
	id.state, id.unconfirmed = accepting, true
	return nil
}

// Reject rejects a ConnectRequest or a ConnectResponse, with private data for the peer
// (rdma_reject).
func (id *ID) Reject(privateData []byte) (ret error) {
	defer id.begin("rdma_reject", arg("private_data_len", len(privateData)))(&ret)
	if err := id.lockIn("reject", requested, replied); err != nil {
		return err
	}
	defer id.m.unlock()
	_, _, max := id.ep.limits()
	if err := id.fits("reject", privateData, max); err != nil {
		return err
	}
	if err := id.ep.reject(privateData); err != nil {
		return err
	}
	id.state = failed
	return nil
}

// fits checks the length of private data.
func (id *ID) fits(op string, b []byte, max int) error {
	if len(b) > max {
		return opErr(op, verbs.ErrInvalid, "%d bytes of private data, %d fit%s", len(b), max, id.addrs())
	}
	return nil
}

// Establish completes a connection after ConnectResponse, once the program has brought its
// queue pair to RTS (rdma_establish). Over iWARP and shared memory, Established comes instead, and Establish has
// nothing to do.
func (id *ID) Establish() (ret error) {
	defer id.begin("rdma_establish")(&ret)
	if err := id.lockIn("establish", replied, established); err != nil {
		return err
	}
	defer id.m.unlock()
	if err := id.ep.ready(); err != nil {
		return err
	}
	id.state = established
	return nil
}

// Notify tells the manager of an event of the id's queue pair (rdma_notify). EventCommEstablished
// means that the peer is already sending, even if its last message was lost; Established follows if
// it has not come yet. Other events change nothing.
func (id *ID) Notify(ev verbs.EventType) (ret error) {
	defer id.begin("rdma_notify", arg("event", ev))(&ret)
	if err := id.lockIn("notify", accepting, established, disconnecting, disconnected); err != nil {
		return err
	}
	defer id.m.unlock()
	if ev != verbs.EventCommEstablished || id.state != accepting {
		return nil
	}
	return id.ep.established()
}

// Disconnect ends the connection: the queue pair goes to the error state, work requests are
// flushed, and the peer is notified (rdma_disconnect). Disconnected follows on both sides, on this one
// once the peer has answered or failed to. Disconnecting again, or after the peer did, is harmless.
func (id *ID) Disconnect() (ret error) {
	defer id.begin("rdma_disconnect")(&ret)
	if err := id.lockIn("disconnect", accepting, established, disconnecting, disconnected); err != nil {
		return err
	}
	defer id.m.unlock()
	if id.state >= disconnecting || id.ps.datagrams() {
		return nil
	}
	id.breakQP()
	id.state = disconnecting
	return id.ep.disconnect()
}
