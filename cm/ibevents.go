// SPDX-License-Identifier: Apache-2.0

package cm

import (
	"fmt"
	"net/netip"

	"github.com/ramjet-rdma/ramjet/internal/ibcm"
	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/wire/ib"
	"github.com/ramjet-rdma/ramjet/wire/mad"
)

// handle turns an event of the engine into what it means for an id.
func (p *ibProtocol) handle(e *ibcm.Event) {
	switch e.Kind {
	case ibcm.EventRequest, ibcm.EventServiceRequest:
		p.requested(e)
		return
	}
	id := p.conns[e.ID]
	if id == nil {
		return
	}
	if e.Kind.Final() {
		p.forget(id)
	}
	switch e.Kind {
	case ibcm.EventReply:
		p.replied(id, e.REP)
	case ibcm.EventEstablished:
		if id.state == accepting {
			id.state = established
			id.tell(&Event{Type: Established, ID: id, Conn: id.ib.seen(e.Private)})
		}
	case ibcm.EventRejected:
		p.rejected(id, e.REJ)
	case ibcm.EventUnreachable:
		what := "does not answer the " + e.Message.String()
		if e.Message == 0 {
			what = "was not heard any more, and another request has its place in the backlog"
		}
		id.end(failed, &Event{Type: Unreachable, Err: opErr("connect", ErrTimeout, "%v %s", id.peer, what)})
	case ibcm.EventDisconnected:
		if id.state != disconnected {
			id.end(disconnected, &Event{Type: Disconnected})
		}
	case ibcm.EventTimeWaitExit:
		id.tell(&Event{Type: TimewaitExit, ID: id})
	case ibcm.EventService:
		p.served(id, e.SIDRREP)
	}
}

// requested makes the id of a connection or service that a peer asks for.
func (p *ibProtocol) requested(e *ibcm.Event) {
	listener := p.listeners[e.Listener]
	if listener == nil {
		p.engine.Release(p.now(), e.ID)
		return
	}
	id := &ID{ps: listener.ps, sink: listener.sink, state: requested, tos: listener.tos, ackTimeout: listener.ackTimeout,
		qpType: listener.qpType, ib: &ibConn{comm: e.ID, rqPSN: randomPSN(), to: e.From}}
	c := id.ib
	event := &Event{Type: ConnectRequest, ID: id, Listener: listener}
	why := mad.Reason(0)
	var private []byte
	if e.Kind == ibcm.EventServiceRequest {
		private = e.SIDRREQ.Private[:]
		event.UD.PrivateData = private[mad.IPAddressLen:]
	} else {
		r := e.REQ
		private = r.Private[:]
		path := &r.Primary
		c.to = verbs.AHAttr{DGID: e.From.DGID, TrafficClass: path.TrafficClass, FlowLabel: path.FlowLabel, SL: path.SL}
		if path.AckTimeout == 0 {
			path.AckTimeout = DefaultAckTimeout // without one a peer that dies is never noticed
		}
		if id.tos != 0 {
			c.to.TrafficClass = id.tos
		}
		c.qpn, c.sqPSN, c.mtu = r.LocalQPN, r.StartingPSN, verbs.MTU(r.PathMTU)
		c.ackTime, c.retries, c.rnr = min(uint8(path.AckTimeout), MaxPeerAckTimeout), r.RetryCount, r.RNRRetryCount
		c.responder = depth(r.InitiatorDepth, p.device.MaxQPRdAtomic, Unlimited)
		c.initiator = depth(r.ResponderResources, p.device.MaxQPInitRdAtom, Unlimited)
		event.Conn = c.seen(private[mad.IPAddressLen:])
		event.Conn.FlowControl, event.Conn.SRQ, event.Conn.QPNum = r.FlowControl, r.SRQ, r.LocalQPN
		why = p.unacceptable(listener, &e.From, r)
	}
	var header mad.IPAddress
	header.Decode(private)
	id.m = p.m
	if why == 0 {
		why = impostor(&header, &e.From)
	}
	if why != 0 {
		p.refuse(id, why, nil)
		return
	}
	id.local = netip.AddrPortFrom(listener.local.Addr(), e.Listener.Port())
	id.peer = header.SrcAddr()
	p.m.add(id)
	c.live = true
	p.conns[c.comm] = id
	if !listener.tell(event) {
		id.close() // nobody will
	}
}

// impostor says whether the address in front of a request's private data (annex A11.2.3) is not
// the one that the datagram came from; 0: it is. Over IP the GID of a port is its address, so
// that whoever could name another would be taken for it, and answered there. Zones of IPv6
// link-local addresses are not in any of them.
func impostor(h *mad.IPAddress, from *verbs.AHAttr) mad.Reason {
	switch {
	case !h.Valid():
		return mad.RejUnsupportedRequest
	case ib.GIDFromAddr(h.SrcAddr().Addr()) != from.DGID:
		return mad.RejPrimaryGID
	}
	return 0
}

// unacceptable says what of a request this side cannot do; 0: nothing. The GID where the
// connection is to end is that where the request came from: a connection is with who asks for it.
func (p *ibProtocol) unacceptable(listener *ID, from *verbs.AHAttr, r *mad.REQ) mad.Reason {
	peer := r.Primary.LocalGID.Addr()
	switch mtu := verbs.MTU(r.PathMTU); {
	case !listener.serves(r):
		return mad.RejInvalidTransportType
	case r.Primary.LocalGID != from.DGID || peer.IsUnspecified() || peer.IsMulticast() || peer.Is4() != listener.local.Addr().Is4():
		return mad.RejPrimaryGID
	case !mtu.Valid() || mtu > p.mtu:
		return mad.RejInvalidPathMTU
	}
	return 0
}

// serves reports whether the listener's queue pairs are of the type that a request needs: XRC only
// if its program has said so, as an initiator reaches nothing but a target.
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

// seen is what the peer said, seen from this side.
func (c *ibConn) seen(private []byte) ConnParam {
	return ConnParam{PrivateData: private, ResponderResources: c.responder, InitiatorDepth: c.initiator, RetryCount: c.retries,
		RNRRetryCount: c.rnr, QPNum: c.qpn}
}

// replied goes on with a connection that the peer has accepted.
func (p *ibProtocol) replied(id *ID, r *mad.REP) {
	p.answered(id)
	c := id.ib
	c.qpn, c.sqPSN, c.rnr = r.LocalQPN, r.StartingPSN, r.RNRRetryCount
	if id.qpType == verbs.XRCIni {
		c.qpn = verbs.QPN(r.LocalEECN) // annex A14
	}
	c.responder, c.initiator = min(c.responder, r.InitiatorDepth), min(c.initiator, r.ResponderResources)
	event := &Event{Type: ConnectResponse, ID: id, Conn: c.seen(r.Private[:])}
	event.Conn.FlowControl, event.Conn.SRQ = r.FlowControl, r.SRQ
	if id.qp == nil {
		id.state = replied
		id.tell(event)
		return
	}
	err := id.raise(id.qp, verbs.RTR, verbs.RTS)
	if err == nil {
		err = p.ready(id)
	}
	if err != nil {
		p.refuse(id, mad.RejConsumer, nil)
		p.forget(id)
		id.end(failed, &Event{Type: ConnectError, Err: fmt.Errorf("cm: connecting %v to %v: %w", id.local, id.peer, err)})
		return
	}
	id.state = established
	event.Type = Established
	id.tell(event)
}

// rejected ends an attempt, or a connection that the peer does not know.
func (p *ibProtocol) rejected(id *ID, r *mad.REJ) {
	if id.state >= established {
		if id.state != disconnected {
			id.end(disconnected, &Event{Type: Disconnected})
		}
		return
	}
	if r.Reason == mad.RejInvalidServiceID && id.asksAgain() {
		return
	}
	id.end(failed, &Event{Type: Rejected, Conn: ConnParam{PrivateData: r.Private[:]},
		Err: &RejectError{Address: id.peer.String(), Reason: r.Reason, PrivateData: r.Private[:]}})
}

// served tells of the answer of a datagram service. Where it is no, that is an Unreachable,
// as librdmacm has it.
func (p *ibProtocol) served(id *ID, r *mad.SIDRREP) {
	if r.Status == mad.SIDRValid {
		id.state = established
		id.tell(&Event{Type: Established, ID: id, UD: UDParam{PrivateData: r.Private[:], QPN: r.QPN, QKey: r.QKey,
			AH: verbs.AHAttr{DGID: ib.GIDFromAddr(id.peer.Addr()), TrafficClass: id.tos}}})
		return
	}
	why := RejectReason(mad.RejConsumer)
	switch r.Status {
	case mad.SIDRUnsupported:
		why = mad.RejInvalidServiceID
		if id.asksAgain() {
			return
		}
	case mad.SIDRNoQP:
		why = mad.RejNoQP
	}
	id.end(failed, &Event{Type: Unreachable, UD: UDParam{PrivateData: r.Private[:]},
		Err: &RejectError{Address: id.peer.String(), Reason: why, PrivateData: r.Private[:]}})
}
