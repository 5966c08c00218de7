// SPDX-License-Identifier: Apache-2.0

package ibcm

import (
	"github.com/ramjet-rdma/ramjet/internal/base/clock"
	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/wire/ib"
	"github.com/ramjet-rdma/ramjet/wire/mad"
)

// handleREQ: a peer requests a connection (IBTA 12.9.7.2).
func (e *Engine) handleREQ(now clock.Time, from verbs.AHAttr, tid uint64, b []byte) {
	req := new(mad.REQ)
	if !req.Decode(b) {
		return
	}
	reject := func(r mad.Reason) {
		e.refuse(from, tid, mad.REJ{RemoteCommID: req.LocalCommID, Message: mad.MessageREQ, Reason: r})
	}
	if req.LocalCommID == 0 {
		reject(mad.RejInvalidCommID)
		return
	}
	n := conn{to: from, pkey: e.pkey, state: reqRcvd, passive: true, remote: req.LocalCommID, remoteQPN: req.LocalQPN,
		tid: tid, guid: req.LocalCAGUID, alternate: req.Alternate != mad.Path{},
		wait: min(req.Primary.AckTimeout, maxTimeWait)}
	n.xrc = req.XRC()
	n.setRepeat(min(req.LocalTimeout, defaultResponse), req.MaxCMRetries)
	setDefault(&n.wait, defaultAckTimeout)

	if old := e.requests[n.requestKey()]; old != nil {
		if old.remoteQPN == req.LocalQPN {
			e.repeatedREQ(now, old)
		} else {
			reject(mad.RejDuplicateLocalCommID)
		}
		return
	}
	l := e.match(req.ServiceID)
	switch {
	case l == nil:
		reject(mad.RejInvalidServiceID)
		return
	case req.Transport != mad.TransportRC && req.Transport != mad.TransportUC && !n.xrc:
		reject(mad.RejInvalidTransportType)
		return
	case !verbs.MTU(req.PathMTU).Valid():
		reject(mad.RejInvalidPathMTU)
		return
	case !e.admits(now, &l.backlog, &from, true):
		return
	}
	c := e.open(n)
	if c == nil {
		reject(mad.RejNoResources)
		return
	}
	l.join(now, c, false)
	e.emit(c, Event{Kind: EventRequest, Listener: l.Service, From: from, REQ: req, Private: req.Private[:]})
}

// repeatedREQ: our answer was lost, or takes too long.
func (e *Engine) repeatedREQ(now clock.Time, c *conn) {
	c.entry.touch(now)
	c.repeat.unconfirmed = 0
	switch c.state {
	case reqRcvd:
		e.reply(c.to, mad.AttrMRA, c.tid, &mad.MRA{LocalCommID: c.id, RemoteCommID: c.remote,
			Message: mad.MessageREQ, ServiceTimeout: c.entry.listener.ServiceTimeout})
	case repSent, refused:
		e.resend(c)
	case timeWait:
		e.reply(c.to, mad.AttrREJ, c.tid, &mad.REJ{LocalCommID: c.id, RemoteCommID: c.remote,
			Message: mad.MessageREQ, Reason: mad.RejStaleConnection})
	}
}

// Accept answers EventRequest with a REP. Errors of this and the following commands: [ErrNotFound],
// [verbs.ErrState] if the command does not fit the connection's state, [verbs.ErrInvalid].
func (e *Engine) Accept(now clock.Time, id mad.CommID, p *AcceptParams) error {
	const op = "accept"
	c, err := e.lookup(op, id)
	switch {
	case err != nil:
		return err
	case c.state != reqRcvd:
		return wrongState(op, "there is no EventRequest to answer")
	case len(p.PrivateData) > mad.REPPrivateLen:
		return tooLong(op, len(p.PrivateData), "a REP", mad.REPPrivateLen)
	case p.QPN > ib.QPNMulticast || p.StartingPSN > ib.PSNMask:
		return invalid(op, "a QPN or a starting PSN of more than 24 bits")
	case p.RNRRetryCount > 7:
		return invalid(op, "RNRRetryCount goes to 7")
	}
	c.entry.accepted(now, c)
	c.state, c.localQPN = repSent, p.QPN
	rep := mad.REP{LocalCommID: c.id, RemoteCommID: c.remote, LocalQPN: p.QPN, StartingPSN: p.StartingPSN,
		ResponderResources: p.ResponderResources, InitiatorDepth: p.InitiatorDepth, AckDelay: e.config.AckDelay,
		FlowControl: p.FlowControl, RNRRetryCount: p.RNRRetryCount, SRQ: p.SRQ, LocalCAGUID: e.config.CAGUID}
	if c.alternate {
		rep.Failover = failoverNotSupported
	}
	if c.xrc { // annex A14: the target's number travels as an EE context, and a target sends nothing
		rep.LocalQPN, rep.LocalEECN, rep.SRQ = 0, uint32(p.QPN), true
		rep.InitiatorDepth, rep.FlowControl = 0, false
	}
	copy(rep.Private[:], p.PrivateData)
	e.sendRequest(now, c, mad.AttrREP, c.tid, &rep)
	return nil
}

// failoverNotSupported answers a REQ with an alternate path (IBTA 12.7.31).
const failoverNotSupported = 1

// handleRTU: the active side is ready.
func (e *Engine) handleRTU(now clock.Time, from verbs.AHAttr, tid uint64, b []byte) {
	rtu := new(mad.RTU)
	if !rtu.Decode(b) {
		return
	}
	c := e.find(&from, rtu.RemoteCommID, rtu.LocalCommID)
	switch {
	case c == nil || c.tid != tid:
	case c.state == repSent:
		e.establish(now, c, rtu.Private[:])
	case c.state == refused: // rejected meanwhile
		e.resend(c)
	}
}

// Established reports that data arrived on the QP of an accepted connection before the RTU did
// (IBTA 12.9.7: communication established); its event follows. If the RTU was first, nothing
// happens.
func (e *Engine) Established(now clock.Time, id mad.CommID) error {
	const op = "established"
	c, err := e.lookup(op, id)
	switch {
	case err != nil:
		return err
	case c.state == repSent:
		e.establish(now, c, nil)
	case c.state == reqSent || c.state == repRcvd || c.state == reqRcvd || c.sidr:
		return wrongState(op, "the connection was not accepted")
	}
	return nil
}

func (e *Engine) establish(now clock.Time, c *conn, private []byte) {
	c.entry.leave()
	c.state, c.repeat.last = established, nil
	e.deadlines.set(c, 0)
	e.confirmed(now, c)
	e.emit(c, Event{Kind: EventEstablished, Private: private})
}
