// SPDX-License-Identifier: Apache-2.0

package ibcm

import (
	"encoding/binary"

	"github.com/ramjet-rdma/ramjet/internal/base/clock"
	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/wire/mad"
)

// Reject answers EventRequest or EventReply with a REJ, and drops the connection.
func (e *Engine) Reject(now clock.Time, id mad.CommID, p *RejectParams) error {
	const op = "reject"
	c, err := e.lookup(op, id)
	switch {
	case err != nil:
		return err
	case c.state != reqRcvd && c.state != repRcvd:
		return wrongState(op, "there is no EventRequest and no EventReply to answer")
	case len(p.PrivateData) > mad.REJPrivateLen:
		return tooLong(op, len(p.PrivateData), "a REJ", mad.REJPrivateLen)
	case len(p.Info) > mad.ARILen:
		return invalid(op, "additional reject information of more than 72 bytes")
	}
	e.reject(now, c, p)
	return nil
}

// reject rejects the peer's request or reply of c.
func (e *Engine) reject(now clock.Time, c *conn, p *RejectParams) {
	rej := mad.REJ{LocalCommID: c.id, RemoteCommID: c.remote, Message: mad.MessageOther, Reason: p.Reason,
		ARILen: uint8(len(p.Info))}
	switch c.state {
	case reqRcvd:
		rej.LocalCommID, rej.Message = 0, mad.MessageREQ
	case repRcvd:
		rej.Message = mad.MessageREP
	}
	setDefault(&rej.Reason, mad.RejConsumer)
	copy(rej.ARI[:], p.Info)
	copy(rej.Private[:], p.PrivateData)
	e.send(c, mad.AttrREJ, c.tid, &rej)
	e.keepRefused(now, c)
}

// rejectTimeout tells the peer that we do not wait for it any more. It knows the connection by our
// ID and our CA GUID, because it may not have sent its own ID (IBTA 12.6.7.2).
func (e *Engine) rejectTimeout(c *conn) {
	rej := mad.REJ{LocalCommID: c.id, RemoteCommID: c.remote, Message: mad.MessageOther, Reason: mad.RejTimeout,
		ARILen: 8}
	binary.BigEndian.PutUint64(rej.ARI[:], e.config.CAGUID)
	e.send(c, mad.AttrREJ, c.tid, &rej)
}

// refuse rejects a message for which there is no connection.
func (e *Engine) refuse(to verbs.AHAttr, tid uint64, rej mad.REJ) {
	e.reply(to, mad.AttrREJ, tid, &rej)
}

// refuseVersion rejects a REQ of another version of the class. The additional information names the
// supported version (IBTA 12.6.7.2).
func (e *Engine) refuseVersion(to verbs.AHAttr, h *mad.Header, b []byte) {
	if h.Attribute == mad.AttrREQ {
		rej := mad.REJ{RemoteCommID: mad.CommID(binary.BigEndian.Uint32(b)), Message: mad.MessageREQ,
			Reason: mad.RejInvalidClassVersion, ARILen: 1}
		rej.ARI[0] = mad.ClassCMVersion
		e.refuse(to, h.TID, rej)
	}
}

// drop ends a connection that the peer does not know any more. A request that the program has not
// answered yet ends at once, so that there is nothing to answer.
func (e *Engine) drop(now clock.Time, c *conn) {
	switch c.state {
	case repSent, established:
		e.disconnect(now, c, nil)
	case reqRcvd, repRcvd:
		e.emit(c, Event{Kind: EventRejected, REJ: &mad.REJ{RemoteCommID: c.id, LocalCommID: c.remote,
			Reason: mad.RejStaleConnection}})
		e.reject(now, c, &RejectParams{Reason: mad.RejStaleConnection})
	}
}

// rejected finds the connection that a REJ concerns. The REJ has the transaction ID of the set-up,
// or of the DREQ that it answers. A REQ is rejected by managers that have no ID for us yet, and
// withdrawn by managers that do not know our ID: the latter send their CA GUID (IBTA 12.6.7.2).
func (e *Engine) rejected(from *verbs.AHAttr, tid uint64, rej *mad.REJ) *conn {
	c := e.byID[rej.RemoteCommID]
	if c == nil && rej.Reason == mad.RejTimeout {
		c = e.requests[requestKey{peer: peerOf(from), id: rej.LocalCommID, tid: tid}]
		if c != nil && (rej.ARILen < 8 || binary.BigEndian.Uint64(rej.ARI[:]) != c.guid) {
			return nil
		}
	}
	switch {
	case c == nil || c.sidr || peerOf(&c.to) != peerOf(from):
		return nil
	case c.tid != tid && (c.state != dreqSent || c.repeat.tid != tid):
		return nil
	case c.state != reqSent && c.remote != rej.LocalCommID:
		return nil
	}
	return c
}

// handleREJ: the peer rejects, or does not know the connection (IBTA 12.9.8).
func (e *Engine) handleREJ(now clock.Time, from verbs.AHAttr, tid uint64, b []byte) {
	rej := new(mad.REJ)
	if !rej.Decode(b) {
		return
	}
	c := e.rejected(&from, tid, rej)
	if c == nil {
		return
	}
	ev := Event{Kind: EventRejected, REJ: rej, Private: rej.Private[:]}
	switch c.state {
	case reqSent:
		e.emit(c, ev)
		e.remove(c)
	case reqRcvd, repSent:
		e.emit(c, ev)
		c.repeat.last = nil
		e.keepRefused(now, c) // a repetition of the REQ may be in flight
	case repRcvd:
		e.emit(c, ev)
		c.released, c.repeat.last = true, nil
		e.enterTimeWait(now, c)
	case established, dreqSent: // the peer has finished with it, or does not know it
		c.repeat.last = nil
		e.emit(c, Event{Kind: EventDisconnected})
		e.enterTimeWait(now, c)
	}
}

// MRA asks the peer of an EventRequest or EventReply for more time: the answer will come within t.
// The engine sends one itself when the peer repeats its request, so a program seldom needs it.
func (e *Engine) MRA(now clock.Time, id mad.CommID, t mad.Timeout, private []byte) error {
	const op = "mra"
	c, err := e.lookup(op, id)
	switch {
	case err != nil:
		return err
	case c.state != reqRcvd && c.state != repRcvd:
		return wrongState(op, "there is no EventRequest and no EventReply to answer")
	case t > 31:
		return invalid(op, "timeouts have five bits")
	case len(private) > mad.MRAPrivateLen:
		return tooLong(op, len(private), "an MRA", mad.MRAPrivateLen)
	}
	mra := mad.MRA{LocalCommID: c.id, RemoteCommID: c.remote, Message: mad.MessageREQ, ServiceTimeout: t}
	if c.state == repRcvd {
		mra.Message = mad.MessageREP
	}
	copy(mra.Private[:], private)
	e.reply(c.to, mad.AttrMRA, c.tid, &mra)
	return nil
}

// handleMRA: the peer needs more time. We keep repeating our message, slowly and without counting:
// if the answer is lost, it is not missing for the whole time that the peer asked for, which may be
// minutes.
func (e *Engine) handleMRA(now clock.Time, from verbs.AHAttr, tid uint64, b []byte) {
	mra := new(mad.MRA)
	if !mra.Decode(b) {
		return
	}
	c := e.byID[mra.RemoteCommID]
	if c == nil || c.sidr || c.tid != tid || peerOf(&c.to) != peerOf(&from) ||
		!(c.state == reqSent && mra.Message == mad.MessageREQ) &&
			!(c.state == repSent && mra.Message == mad.MessageREP && c.remote == mra.LocalCommID) {
		return
	}
	total := maxExtensionREQ
	if c.state == repSent {
		total = maxExtensionREP
	}
	r := &c.repeat
	held := now < r.extension.until
	extra := r.extension.grant(now, clock.Time(mra.ServiceTimeout.Duration()), total)
	if extra == 0 {
		return
	}
	c.entry.touch(now)
	if !held {
		e.deadlines.set(c, now+min(extra+r.interval, max(r.interval, extendedInterval)))
	}
	if !r.extension.notified {
		r.extension.notified = true
		e.emit(c, Event{Kind: EventMRA, Private: mra.Private[:]})
	}
}
