// SPDX-License-Identifier: Apache-2.0

package ibcm

import (
	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/wire/mad"
)

// Disconnect sends a DREQ. EventDisconnected follows when the peer answers, or
// does not; where the peer was faster, nothing happens.
func (e *Engine) Disconnect(now Time, id mad.CommID, private []byte) error {
	const op = "disconnect"
	c, err := e.command(op, id)
	switch {
	case err != nil:
		return err
	case len(private) > mad.DREQPrivateLen:
		return tooLong(op, len(private), "a DREQ", mad.DREQPrivateLen)
	case c.state == established || c.state == repSent:
		e.disconnect(now, c, private)
	case c.state != dreqSent && c.state != timeWait:
		return wrongState(op, "the connection is not established; use Reject or Release")
	}
	return nil
}

// hasty is how many DREQs follow the first at half the length of time wait. Linux answers one that it
// has answered before only while its time wait lasts: where its DREP was lost, those that
// come later are in vain.
const hasty = 3

func (e *Engine) disconnect(now Time, c *conn, private []byte) {
	c.place.leave()
	c.state, c.repeat.hasty = dreqSent, hasty
	dreq := mad.DREQ{LocalCommID: c.id, RemoteCommID: c.remote, RemoteQPN: c.remoteQPN}
	copy(dreq.Private[:], private)
	e.ask(now, c, mad.AttrDREQ, e.tid(c), &dreq)
}

// handleDREQ: the peer ends the connection. It is answered whether we know it
// or not, so that the peer gets rid of it (IBTA 12.9.9).
func (e *Engine) handleDREQ(now Time, from verbs.AHAttr, tid uint64, b []byte) {
	dreq := new(mad.DREQ)
	if !dreq.Decode(b) {
		return
	}
	drep := mad.DREP{LocalCommID: dreq.RemoteCommID, RemoteCommID: dreq.LocalCommID}
	c := e.find(&from, dreq.RemoteCommID, dreq.LocalCommID)
	if c == nil {
		e.reply(from, mad.AttrDREP, tid, &drep)
		return
	}
	switch c.state {
	case repRcvd, repSent, established, dreqSent:
		if c.localQPN != dreq.RemoteQPN {
			return
		}
		e.say(c, mad.AttrDREP, tid, &drep)
		e.emit(c, Event{Kind: EventDisconnected, Private: dreq.Private[:]})
		e.enterTimeWait(now, c)
	case timeWait, refused:
		e.reply(from, mad.AttrDREP, tid, &drep)
	}
}

// handleDREP: the peer knows that the connection has ended.
func (e *Engine) handleDREP(now Time, from verbs.AHAttr, tid uint64, b []byte) {
	drep := new(mad.DREP)
	if !drep.Decode(b) {
		return
	}
	if c := e.find(&from, drep.RemoteCommID, drep.LocalCommID); c != nil && c.state == dreqSent && c.repeat.tid == tid {
		c.repeat.last = nil
		e.emit(c, Event{Kind: EventDisconnected, Private: drep.Private[:]})
		e.enterTimeWait(now, c)
	}
}

// Release forgets a connection or a resolution in any state: what is not
// answered is rejected or withdrawn, what is established is disconnected. No
// event comes for it any more.
func (e *Engine) Release(now Time, id mad.CommID) error {
	c, err := e.command("release", id)
	if err != nil {
		return err
	}
	e.release(now, c)
	return nil
}

func (e *Engine) release(now Time, c *conn) {
	c.quiet = true
	switch c.state {
	case reqSent:
		e.rejectTimeout(c)
		e.forget(c)
	case sidrSent:
		e.forget(c)
	case sidrRcvd:
		e.serve(now, c, &ServiceParams{Status: mad.SIDRReject})
	case reqRcvd, repRcvd, repSent:
		e.reject(now, c, &RejectParams{})
	case established:
		e.disconnect(now, c, nil)
	}
}

// handleLAP: alternate paths are not supported.
func (e *Engine) handleLAP(from verbs.AHAttr, tid uint64, b []byte) {
	var lap mad.LAP
	if !lap.Decode(b) {
		return
	}
	apr := mad.APR{LocalCommID: lap.RemoteCommID, RemoteCommID: lap.LocalCommID, Status: mad.APNotSupported}
	if c := e.find(&from, lap.RemoteCommID, lap.LocalCommID); c == nil || c.state != established {
		apr.Status = mad.APInvalidCommID
	}
	e.reply(from, mad.AttrAPR, tid, &apr)
}
