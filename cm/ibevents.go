// SPDX-License-Identifier: Apache-2.0

package cm

import (
	"fmt"
	"net/netip"

	"github.com/ramjet-rdma/ramjet/internal/core/faults"
	"github.com/ramjet-rdma/ramjet/internal/engine/ibcm"
	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/wire/mad"
)

// handle applies an event of the engine to its id.
func (p *ibProtocol) handle(e *ibcm.Event) {
	switch e.Kind {
	case ibcm.EventRequest, ibcm.EventServiceRequest:
		p.requested(e)
		return
	}
	c := p.conns[e.ID]
	if c == nil {
		return
	}
	id := c.id
	if e.Kind.Final() {
		c.forget()
	}
	switch e.Kind {
	case ibcm.EventReply:
		c.replied(e.REP)
	case ibcm.EventEstablished:
		id.confirmed(c.connParam(e.Private))
	case ibcm.EventRejected:
		id.rejected(e.REJ)
	case ibcm.EventUnreachable:
		what := "does not answer the " + e.Message.String()
		if e.Message == 0 {
			what = "was not heard any more, and another request has its place in the backlog"
		}
		id.end(failed, &Event{Type: Unreachable, Err: opErr("connect", ErrTimeout, "%v %s", id.peer, what)})
	case ibcm.EventDisconnected:
		id.over()
	case ibcm.EventTimeWaitExit:
		id.deliver(&Event{Type: TimewaitExit, ID: id})
	case ibcm.EventService:
		id.served(e.SIDRREP, c.to)
	}
}

// requested creates the id of a connection or service that a peer requests.
func (p *ibProtocol) requested(e *ibcm.Event) {
	listener := p.listeners[e.Listener]
	if listener == nil {
		p.engine.Release(p.now(), e.ID)
		return
	}
	id := listener.request()
	c := &ibConn{ibProtocol: p, id: id, commID: e.ID, rqPSN: randomPSN(), host: e.From, to: e.From}
	event := &Event{Type: ConnectRequest, ID: id, Listener: listener}
	local, ok := p.m.addrAt(e.From.SGIDIndex) // where the peer has sent it to
	if !ok || p.subnet != nil {               // there an address is not the GID's
		local = listener.local.Addr()
	}
	why := mad.Reason(0)
	var private []byte
	if e.Kind == ibcm.EventServiceRequest {
		private, c.pkey = e.SIDRREQ.Private[:], e.SIDRREQ.PKey
		event.UD.PrivateData = private[mad.IPAddressLen:]
	} else {
		r := e.REQ
		private = r.Private[:]
		path := &r.Primary
		if p.subnet != nil {
			c.to = p.subnet.replyPath(path)
		}
		c.to.TrafficClass, c.to.FlowLabel, c.to.SL = path.TrafficClass, path.FlowLabel, path.SL
		if path.AckTimeout == 0 {
			path.AckTimeout = DefaultAckTimeout // without one a peer that dies would never be noticed
		}
		if id.tos != 0 {
			c.to.TrafficClass = id.tos
		}
		c.qpn, c.sqPSN, c.mtu, c.pkey = r.LocalQPN, r.StartingPSN, verbs.MTU(r.PathMTU), r.PKey
		c.ackTime, c.retries, c.rnr = min(uint8(path.AckTimeout), MaxPeerAckTimeout), r.RetryCount, r.RNRRetryCount
		c.responder = depth(r.InitiatorDepth, p.device.MaxQPRdAtomic, Unlimited)
		c.initiator = depth(r.ResponderResources, p.device.MaxQPInitRdAtomic, Unlimited)
		event.Conn = c.connParam(private[mad.IPAddressLen:])
		event.Conn.FlowControl, event.Conn.SRQ, event.Conn.QPNum = r.FlowControl, r.SRQ, r.LocalQPN
		why = p.unacceptable(listener, local, &e.From, r)
	}
	if local != listener.local.Addr() && !listener.anyAddr {
		why = mad.RejInvalidServiceID
	}
	var header mad.IPAddress
	header.Decode(private)
	peer, impostor := p.peerOf(&header, &e.From)
	if why == 0 {
		why = impostor
	}
	if why == 0 {
		why = rejects(p.m.drv, faults.Received, peer.Addr())
	}
	if why != 0 {
		c.refuse(why, nil)
		return
	}
	id.local = netip.AddrPortFrom(local, e.Listener.Port())
	id.peer = peer
	p.m.add(id, c)
	c.live = true
	p.conns[c.commID] = c
	if !listener.deliver(event) {
		id.close() // the program does not have it
	}
}

// peerOf returns the address in a request's private data (annex A11.2.3), or the reason to reject it with if
// the datagram's source has another one. Over IP the GID of a port is its address. A peer that could name
// another one would be taken for it, and the answer would go there. In a subnet with other fabrics
// there are addresses that this one does not know, and another adapter of this host may have
// this port's address: then the peer's address is its GID. No address
// has a zone, even if it is IPv6 link-local.
func (p *ibProtocol) peerOf(h *mad.IPAddress, from *verbs.AHAttr) (netip.AddrPort, mad.Reason) {
	if !h.Valid() {
		return netip.AddrPort{}, mad.RejUnsupportedRequest
	}
	peer := h.SrcAddr()
	switch gid := p.gidOf(peer.Addr()); {
	case gid == from.DGID:
		return peer, 0
	case p.subnet != nil && (gid == (verbs.GID{}) || gid == p.subnet.gid()):
		return netip.AddrPortFrom(from.DGID.Addr(), peer.Port()), 0
	}
	return netip.AddrPort{}, mad.RejPrimaryGID
}

// unacceptable returns the reason why this side cannot accept a request, or 0. The GID at which the
// connection is to end must be the request's source: a connection is with the peer that requests
// it.
func (p *ibProtocol) unacceptable(listener *ID, local netip.Addr, from *verbs.AHAttr, r *mad.REQ) mad.Reason {
	peer := r.Primary.LocalGID.Addr()
	path := &r.Primary
	switch mtu := verbs.MTU(r.PathMTU); {
	case !listener.serves(r):
		return mad.RejInvalidTransportType
	case path.LocalGID != from.DGID || peer.IsUnspecified() || peer.IsMulticast() ||
		p.subnet == nil && peer.Is4() != local.Is4():
		return mad.RejPrimaryGID
	case p.subnet != nil && (!path.SubnetLocal || path.LocalLID != from.DLID):
		return mad.RejPrimaryLID
	case !mtu.Valid() || mtu > p.mtu():
		return mad.RejInvalidPathMTU
	}
	return 0
}

// serves reports whether the listener's queue pairs have the type that a request needs. XRC is
// served only if the listener's program asked for it, because an initiator reaches nothing but a
// target.
func (id *ID) serves(r *mad.REQ) bool {
	switch {
	case r.XRC():
		return id.qpType == verbs.XRCTgt
	case r.Transport == mad.TransportRC:
		return id.qpType == 0 || id.qpType == verbs.RC
	case r.Transport == mad.TransportUC:
		return id.ps == IB && (id.qpType == 0 || id.qpType == verbs.UC)
	}
	return false
}

// connParam returns the peer's parameters, as seen from this side.
func (c *ibConn) connParam(private []byte) ConnParam {
	return ConnParam{PrivateData: private, ResponderResources: c.responder, InitiatorDepth: c.initiator,
		RetryCount: c.retries, RNRRetryCount: c.rnr, QPNum: c.qpn}
}

// replied continues a connection that the peer has accepted.
func (c *ibConn) replied(r *mad.REP) {
	c.answered()
	id := c.id
	c.qpn, c.sqPSN, c.rnr = r.LocalQPN, r.StartingPSN, r.RNRRetryCount
	if id.qpType == verbs.XRCIni {
		c.qpn = verbs.QPN(r.LocalEECN) // annex A14
	}
	c.responder, c.initiator = min(c.responder, r.InitiatorDepth), min(c.initiator, r.ResponderResources)
	event := &Event{Type: ConnectResponse, ID: id, Conn: c.connParam(r.Private[:])}
	event.Conn.FlowControl, event.Conn.SRQ = r.FlowControl, r.SRQ
	if id.qp == nil {
		id.state = replied
		id.deliver(event)
		return
	}
	err := id.moveQP(id.qp, verbs.StateRTR, verbs.StateRTS)
	if err == nil {
		err = c.ready()
	}
	if err != nil {
		c.refuse(mad.RejConsumer, nil)
		c.forget()
		id.end(failed, &Event{Type: ConnectError,
			Err: fmt.Errorf("cm: connecting %v to %v: %w", id.local, id.peer, err)})
		return
	}
	id.state = established
	event.Type = Established
	id.deliver(event)
}

// rejected ends an attempt, or a connection that the peer does not have.
func (id *ID) rejected(r *mad.REJ) {
	if id.state >= established {
		id.over()
		return
	}
	if r.Reason == mad.RejInvalidServiceID && id.willRetry() {
		return
	}
	id.end(failed, &Event{Type: Rejected, Conn: ConnParam{PrivateData: r.Private[:]},
		Err: &RejectError{Address: id.peer.String(), Reason: r.Reason, PrivateData: r.Private[:]}})
}

// served handles the response of a datagram service. A rejection is an Unreachable, as in
// librdmacm.
func (id *ID) served(r *mad.SIDRREP, to verbs.AHAttr) {
	if r.Status == mad.SIDRValid {
		id.state = established
		id.deliver(&Event{Type: Established, ID: id, UD: UDParam{PrivateData: r.Private[:], QPN: r.QPN, QKey: r.QKey,
			AH: to}})
		return
	}
	why := RejectReason(mad.RejConsumer)
	switch r.Status {
	case mad.SIDRUnsupported:
		why = mad.RejInvalidServiceID
		if id.willRetry() {
			return
		}
	case mad.SIDRNoQP:
		why = mad.RejNoQP
	}
	id.end(failed, &Event{Type: Unreachable, UD: UDParam{PrivateData: r.Private[:]},
		Err: &RejectError{Address: id.peer.String(), Reason: why, PrivateData: r.Private[:]}})
}
