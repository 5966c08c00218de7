// SPDX-License-Identifier: Apache-2.0

package ibcm

import (
	"maps"
	"slices"

	"github.com/ramjet-rdma/ramjet/internal/base/clock"
	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/wire/mad"
)

// Disconnect sends a DREQ. EventDisconnected follows when the peer answers, or fails to. If the
// peer disconnected first, nothing happens.
func (e *Engine) Disconnect(now clock.Time, id mad.CommID, private []byte) error {
	const op = "disconnect"
	c, err := e.lookup(op, id)
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

// earlyRepeats is how many DREQs follow the first at half the length of time wait. Linux answers a
// repeated DREQ only during its time wait. If its DREP was lost, later repetitions get no answer.
const earlyRepeats = 3

func (e *Engine) disconnect(now clock.Time, c *conn, private []byte) {
	c.entry.leave()
	c.state, c.repeat.early = dreqSent, earlyRepeats
	dreq := mad.DREQ{LocalCommID: c.id, RemoteCommID: c.remote, RemoteQPN: c.remoteQPN}
	copy(dreq.Private[:], private)
	e.sendRequest(now, c, mad.AttrDREQ, e.tid(c), &dreq)
}

// handleDREQ: the peer ends the connection. The DREQ is answered whether the connection is known or
// not, so that the peer can release it (IBTA 12.9.9).
func (e *Engine) handleDREQ(now clock.Time, from verbs.AHAttr, tid uint64, b []byte) {
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
		e.send(c, mad.AttrDREP, tid, &drep)
		if c.state == repSent { // only a peer that had our REP can end the connection: its RTU was lost, or comes later
			e.establish(now, c, nil)
		}
		e.emit(c, Event{Kind: EventDisconnected, Private: dreq.Private[:]})
		e.enterTimeWait(now, c)
	case timeWait, refused:
		e.reply(from, mad.AttrDREP, tid, &drep)
	}
}

// handleDREP: the peer knows that the connection has ended.
func (e *Engine) handleDREP(now clock.Time, from verbs.AHAttr, tid uint64, b []byte) {
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

// Release drops a connection or a resolution in any state. A request without an answer is rejected
// or withdrawn, an established connection is disconnected. No more events follow.
func (e *Engine) Release(now clock.Time, id mad.CommID) error {
	c, err := e.lookup("release", id)
	if err != nil {
		return err
	}
	e.release(now, c)
	return nil
}

func (e *Engine) release(now clock.Time, c *conn) {
	c.released = true
	switch c.state {
	case reqSent:
		e.rejectTimeout(c)
		e.remove(c)
	case sidrSent:
		e.remove(c)
	case sidrRcvd:
		e.serve(now, c, &ServiceParams{Status: mad.SIDRReject})
	case reqRcvd, repRcvd, repSent:
		e.reject(now, c, &RejectParams{})
	case established:
		e.disconnect(now, c, nil)
	}
}

// Leave releases all connections of a device that is about to be closed. It repeats the DREQs that have no answer yet,
// because a lost DREQ is not repeated later.
func (e *Engine) Leave(now clock.Time) {
	for _, id := range slices.Sorted(maps.Keys(e.byID)) { // in the same order each time
		c := e.byID[id]
		switch {
		case c == nil: // it went with another
		case c.state == dreqSent:
			e.resend(c)
		case c.released, c.state == refused: // there is nothing more to say
		default:
			e.release(now, c)
		}
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
