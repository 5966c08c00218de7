// SPDX-License-Identifier: Apache-2.0

package ibcm

import (
	"github.com/ramjet-rdma/ramjet/internal/base/clock"
	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/wire/ib"
	"github.com/ramjet-rdma/ramjet/wire/mad"
)

// state is the state of a connection or a resolution (IBTA 12.9.5 and 12.9.6).
type state uint8

const (
	reqSent     state = iota // active: waits for the REP
	repRcvd                  // active: the program has to answer
	reqRcvd                  // passive: the program has to answer
	repSent                  // passive: waits for the RTU
	established              // both
	dreqSent                 // waits for the DREP
	timeWait                 // ended; packets may still be in flight
	refused                  // rejected or answered: only repetitions are answered, see keepRefused
	sidrSent                 // requests a service
	sidrRcvd                 // a service was requested: the program has to answer
)

// conn is one side of a connection, or of a service ID resolution.
type conn struct {
	id     mad.CommID
	remote mad.CommID // 0: not known yet
	tid    uint64     // of the REQ: all messages of the set-up have it
	to     verbs.AHAttr
	pkey   ib.PKey // of the partition in which datagrams go to the peer; 0: the default one

	state     state
	sidr      bool // a resolution
	passive   bool // the peer sent the request, a REQ or a SIDR_REQ
	xrc       bool // the target's QPN travels as an EE context
	alternate bool // the REQ had an alternate path
	released  bool // released: no events

	localQPN  ib.QPN
	remoteQPN ib.QPN
	guid      uint64        // the peer's CA GUID, if it sent the request
	wait      mad.Timeout   // how long time wait lasts
	service   mad.ServiceID // of resolutions: the requested service

	entry    backlogEntry // in a listener's backlog
	repeat   repeat
	deadline clock.Time
	due      int // its index in deadlines, from 1
}

// peer identifies the sender of a message.
type peer struct {
	gid ib.GID
	lid uint16
}

func peerOf(to *verbs.AHAttr) peer { return peer{to.DGID, to.DLID} }

// requestKey identifies a REQ or a SIDR_REQ and its repetitions.
type requestKey struct {
	peer
	id   mad.CommID // the peer's
	tid  uint64
	sidr bool
}

// remoteQP is a peer's end of a connection.
type remoteQP struct {
	peer
	qpn ib.QPN
}

func (c *conn) requestKey() requestKey { return requestKey{peerOf(&c.to), c.remote, c.tid, c.sidr} }
func (c *conn) remoteQP() remoteQP     { return remoteQP{peerOf(&c.to), c.remoteQPN} }

// open gives c an ID. It returns nil if there is no room.
func (e *Engine) open(c conn) *conn {
	if e.Connections() >= e.config.MaxConnections || uint64(len(e.byID)+1) >= 1<<freeBits(e.config.IDMask) {
		return nil
	}
	for {
		c.id = mad.CommID(e.config.IDBase | e.nextID()&^e.config.IDMask)
		if c.id != 0 && e.byID[c.id] == nil {
			e.byID[c.id] = &c
			if c.passive {
				e.requests[c.requestKey()] = &c
			}
			return &c
		}
	}
}

// confirmed records that the peer has answered something that only we can have sent to it: c is now
// the connection of its QP. A previous one is stale, because the peer has lost it (IBTA
// 12.9.8.3.1).
func (e *Engine) confirmed(now clock.Time, c *conn) {
	k := c.remoteQP()
	stale := e.byQP[k]
	e.byQP[k] = c
	if stale != nil && stale != c {
		e.drop(now, stale)
	}
}

// releaseQP lets the peer use its QP for another connection.
func (e *Engine) releaseQP(c *conn) {
	if k := c.remoteQP(); e.byQP[k] == c {
		delete(e.byQP, k)
	}
}

// remove removes c from all tables.
func (e *Engine) remove(c *conn) {
	c.entry.leave()
	e.deadlines.set(c, 0)
	e.releaseQP(c)
	if c.passive {
		delete(e.requests, c.requestKey())
	}
	delete(e.byID, c.id)
}

// find returns the connection of a message in an established conversation.
func (e *Engine) find(from *verbs.AHAttr, local, remote mad.CommID) *conn {
	c := e.byID[local]
	if c == nil || c.sidr || c.remote != remote || peerOf(&c.to) != peerOf(from) {
		return nil
	}
	return c
}

// lookup returns the connection that the program names.
func (e *Engine) lookup(op string, id mad.CommID) (*conn, error) {
	c := e.byID[id]
	if c == nil || c.released || c.state == refused {
		return nil, opErr(op, ErrNotFound, "no connection has this communication ID, or its last event was delivered")
	}
	return c, nil
}

// enterTimeWait ends c. Its ID stays known until nothing of it is in flight any more (IBTA
// 12.9.8.4). The peer's QP is free at once, as in Linux.
func (e *Engine) enterTimeWait(now clock.Time, c *conn) {
	c.entry.leave()
	c.state = timeWait
	e.releaseQP(c)
	e.deadlines.set(c, now+clock.Time(c.wait.Duration()))
}

const (
	refusedTime = clock.Time(20e9) // ns; as long as a request may be repeated
	maxRefused  = 1024
)

// keepRefused drops c for the program, but answers repetitions with its last message, if any, for a while.
// All of them last equally long, so the first in the queue ends first.
func (e *Engine) keepRefused(now clock.Time, c *conn) {
	c.entry.leave()
	c.state = refused
	e.releaseQP(c)
	e.deadlines.set(c, 0)
	c.deadline = now + refusedTime
	if len(e.refused) == maxRefused {
		e.remove(e.refused[0])
		e.refused = e.refused[1:]
	}
	e.refused = append(e.refused, c)
}
