// SPDX-License-Identifier: Apache-2.0

package ibcm

import (
	"github.com/ramjet-rdma/ramjet/internal/base/clock"
	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/wire/ib"
	"github.com/ramjet-rdma/ramjet/wire/mad"
)

// Connect sends a REQ. Errors: [verbs.ErrInvalid] (private data too long, or a field out of range),
// [verbs.ErrNoMemory] (MaxConnections).
func (e *Engine) Connect(now clock.Time, p *ConnectParams) (mad.CommID, error) {
	const op = "connect"
	q := *p
	setDefault(&q.PKey, ib.DefaultPKey)
	setDefault(&q.AckTimeout, defaultAckTimeout)
	setDefault(&q.Response, defaultResponse)
	setDefault(&q.Retries, defaultRetries)
	switch {
	case len(q.PrivateData) > mad.REQPrivateLen:
		return 0, tooLong(op, len(q.PrivateData), "a REQ", mad.REQPrivateLen)
	case q.QPN > ib.QPNMulticast || q.StartingPSN > ib.PSNMask:
		return 0, invalid(op, "a QPN or a starting PSN of more than 24 bits")
	case !q.PathMTU.Valid():
		return 0, invalid(op, "a path MTU that is none of 256 to 4096")
	case q.RetryCount > 7 || q.RNRRetryCount > 7 || q.Retries > 15:
		return 0, invalid(op, "retry counts go to 7, Retries to 15")
	case q.Response > 31 || q.AckTimeout > 31:
		return 0, invalid(op, "timeouts have five bits")
	case q.Transport != mad.TransportRC && q.Transport != mad.TransportUC &&
		(q.Transport != mad.TransportExtended || q.ExtendedTransport != mad.ExtendedXRC):
		return 0, invalid(op, "a transport that is none of RC, UC and XRC")
	}
	c := e.open(conn{to: q.To, pkey: q.PKey, state: reqSent, xrc: q.Transport == mad.TransportExtended,
		localQPN: q.QPN, wait: min(q.AckTimeout, maxTimeWait)})
	if c == nil {
		return 0, full(op)
	}
	c.tid = e.tid(c)
	c.setRepeat(q.Response, q.Retries)
	req := mad.REQ{
		LocalCommID: c.id, ServiceID: q.Service, LocalCAGUID: e.config.CAGUID, LocalQPN: q.QPN,
		ResponderResources: q.ResponderResources, InitiatorDepth: q.InitiatorDepth,
		RemoteTimeout: q.Response, LocalTimeout: q.Response, MaxCMRetries: q.Retries,
		Transport: q.Transport, ExtendedTransport: q.ExtendedTransport, FlowControl: q.FlowControl, SRQ: q.SRQ,
		StartingPSN: q.StartingPSN, RetryCount: q.RetryCount, RNRRetryCount: q.RNRRetryCount, PKey: q.PKey,
		PathMTU: uint8(q.PathMTU),
		Primary: primaryPath(&q),
	}
	if c.xrc { // annex A14: an initiator receives nothing, so it announces nothing about receiving
		req.ResponderResources, req.RetryCount, req.RNRRetryCount, req.SRQ = 0, 0, 0, false
	}
	copy(req.Private[:], q.PrivateData)
	e.sendRequest(now, c, mad.AttrREQ, c.tid, &req)
	return c.id, nil
}

// permissiveLID is the LID in paths without LIDs (IBTA 4.1.3).
const permissiveLID = 0xffff

// primaryPath describes the path to the peer (IBTA 12.7.10 to 12.7.21). A routed path, as all are in
// RoCEv2, has permissive LIDs and a hop limit; Linux requests the same. A path with LIDs stays in its
// subnet.
func primaryPath(q *ConnectParams) mad.Path {
	p := mad.Path{LocalLID: permissiveLID, RemoteLID: permissiveLID, LocalGID: q.LocalGID, RemoteGID: q.To.DGID,
		FlowLabel: q.To.FlowLabel & 0xfffff, TrafficClass: q.To.TrafficClass, HopLimit: q.To.HopLimit, SL: q.To.SL,
		AckTimeout: q.AckTimeout}
	if q.To.DLID != 0 {
		p.LocalLID, p.RemoteLID, p.SubnetLocal = q.LocalLID, q.To.DLID, true
	}
	setDefault(&p.HopLimit, 64)
	return p
}

// handleREP: the peer accepts (IBTA 12.9.7.1).
func (e *Engine) handleREP(now clock.Time, from verbs.AHAttr, tid uint64, b []byte) {
	rep := new(mad.REP)
	if !rep.Decode(b) {
		return
	}
	c := e.byID[rep.RemoteCommID]
	if c != nil && c.tid != tid {
		return
	}
	if c == nil || c.sidr || peerOf(&c.to) != peerOf(&from) || rep.LocalCommID == 0 ||
		c.remote != 0 && c.remote != rep.LocalCommID {
		e.refuse(from, tid, mad.REJ{LocalCommID: rep.RemoteCommID, RemoteCommID: rep.LocalCommID,
			Message: mad.MessageREP, Reason: mad.RejInvalidCommID})
		return
	}
	switch {
	case c.state == reqSent:
		e.accepted(now, c, tid, rep)
	case c.state == repRcvd: // the program is not ready yet
		e.reply(c.to, mad.AttrMRA, c.tid, &mad.MRA{LocalCommID: c.id, RemoteCommID: c.remote,
			Message: mad.MessageREP, ServiceTimeout: defaultServiceTimeout})
	case c.state == established || c.state == refused: // our RTU, or our REJ, was lost
		e.resend(c)
	}
}

func (e *Engine) accepted(now clock.Time, c *conn, tid uint64, rep *mad.REP) {
	c.remote, c.remoteQPN = rep.LocalCommID, rep.LocalQPN
	if c.xrc {
		c.remoteQPN = ib.QPN(rep.LocalEECN)
	}
	// the peer has lost a connection that we still have: IBTA 12.9.8.3.1
	if stale := e.byQP[c.remoteQP()]; stale != nil {
		rej := &mad.REJ{LocalCommID: c.id, RemoteCommID: c.remote, Message: mad.MessageREP,
			Reason: mad.RejStaleConnection}
		e.send(c, mad.AttrREJ, tid, rej)
		e.emit(c, Event{Kind: EventRejected, REJ: rej})
		e.keepRefused(now, c)
		e.drop(now, stale)
		return
	}
	e.confirmed(now, c)
	c.state, c.repeat.last = repRcvd, nil
	c.wait = min(max(c.wait, rep.AckDelay+1), maxTimeWait)
	e.deadlines.set(c, 0)
	e.emit(c, Event{Kind: EventReply, REP: rep, Private: rep.Private[:]})
}

// Ready answers EventReply with an RTU: the connection is established.
func (e *Engine) Ready(now clock.Time, id mad.CommID, private []byte) error {
	const op = "ready"
	c, err := e.lookup(op, id)
	switch {
	case err != nil:
		return err
	case c.state != repRcvd:
		return wrongState(op, "there is no EventReply to answer")
	case len(private) > mad.RTUPrivateLen:
		return tooLong(op, len(private), "an RTU", mad.RTUPrivateLen)
	}
	c.state = established
	rtu := mad.RTU{LocalCommID: c.id, RemoteCommID: c.remote}
	copy(rtu.Private[:], private)
	e.send(c, mad.AttrRTU, c.tid, &rtu)
	return nil
}
