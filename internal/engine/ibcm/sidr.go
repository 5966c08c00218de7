// SPDX-License-Identifier: Apache-2.0

package ibcm

import (
	"github.com/ramjet-rdma/ramjet/internal/base/clock"
	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/wire/ib"
	"github.com/ramjet-rdma/ramjet/wire/mad"
)

// Resolve sends a SIDR_REQ; EventService or EventUnreachable follows.
func (e *Engine) Resolve(now clock.Time, p *ResolveParams) (mad.CommID, error) {
	const op = "resolve"
	q := *p
	setDefault(&q.PKey, ib.DefaultPKey)
	setDefault(&q.Response, defaultResponse)
	setDefault(&q.Retries, defaultRetries)
	switch {
	case len(q.PrivateData) > mad.SIDRREQPrivateLen:
		return 0, tooLong(op, len(q.PrivateData), "a SIDR_REQ", mad.SIDRREQPrivateLen)
	case q.Response > 31:
		return 0, invalid(op, "timeouts have five bits")
	}
	c := e.open(conn{to: q.To, pkey: q.PKey, state: sidrSent, sidr: true})
	if c == nil {
		return 0, full(op)
	}
	c.tid = e.tid(c)
	c.setRepeat(q.Response, q.Retries)
	req := mad.SIDRREQ{RequestID: c.id, PKey: q.PKey, ServiceID: q.Service}
	copy(req.Private[:], q.PrivateData)
	e.sendRequest(now, c, mad.AttrSIDRREQ, c.tid, &req)
	return c.id, nil
}

// handleSIDRREP: a service was found, or not (IBTA 12.11).
func (e *Engine) handleSIDRREP(from verbs.AHAttr, tid uint64, b []byte) {
	rep := new(mad.SIDRREP)
	if !rep.Decode(b) {
		return
	}
	c := e.byID[rep.RequestID]
	if c == nil || c.state != sidrSent || c.tid != tid || peerOf(&c.to) != peerOf(&from) {
		return
	}
	e.emit(c, Event{Kind: EventService, SIDRREP: rep, Private: rep.Private[:]})
	e.remove(c)
}

// handleSIDRREQ: a peer requests a service.
func (e *Engine) handleSIDRREQ(now clock.Time, from verbs.AHAttr, tid uint64, b []byte) {
	req := new(mad.SIDRREQ)
	if !req.Decode(b) {
		return
	}
	n := conn{to: from, pkey: e.pkey, state: sidrRcvd, sidr: true, passive: true, remote: req.RequestID, tid: tid,
		service: req.ServiceID}
	if old := e.requests[n.requestKey()]; old != nil {
		old.entry.touch(now)
		e.resend(old)
		return
	}
	status := mad.SIDRUnsupported
	if l := e.match(req.ServiceID); l != nil {
		if !e.admits(now, &l.backlog, &from, false) {
			return
		}
		status = mad.SIDRNoQP
		if c := e.open(n); c != nil {
			l.join(now, c, false)
			e.emit(c, Event{Kind: EventServiceRequest, Listener: l.Service, From: from, SIDRREQ: req,
				Private: req.Private[:]})
			return
		}
	}
	e.reply(from, mad.AttrSIDRREP, tid, &mad.SIDRREP{RequestID: req.RequestID, Status: status,
		ServiceID: req.ServiceID})
}

// Serve answers EventServiceRequest with a SIDR_REP, and drops the request.
func (e *Engine) Serve(now clock.Time, id mad.CommID, p *ServiceParams) error {
	const op = "serve"
	c, err := e.lookup(op, id)
	switch {
	case err != nil:
		return err
	case c.state != sidrRcvd:
		return wrongState(op, "there is no EventServiceRequest to answer")
	case len(p.PrivateData) > mad.SIDRREPPrivateLen:
		return tooLong(op, len(p.PrivateData), "a SIDR_REP", mad.SIDRREPPrivateLen)
	case len(p.Info) > mad.SIDRInfoLen:
		return invalid(op, "additional information of more than 72 bytes")
	case p.QPN > ib.QPNMulticast:
		return invalid(op, "a QPN of more than 24 bits")
	}
	e.serve(now, c, p)
	return nil
}

func (e *Engine) serve(now clock.Time, c *conn, p *ServiceParams) {
	rep := mad.SIDRREP{RequestID: c.remote, Status: p.Status, InfoLen: uint8(len(p.Info)), QPN: p.QPN,
		ServiceID: c.service, QKey: p.QKey}
	copy(rep.Info[:], p.Info)
	copy(rep.Private[:], p.PrivateData)
	e.send(c, mad.AttrSIDRREP, c.tid, &rep)
	e.keepRefused(now, c)
}
