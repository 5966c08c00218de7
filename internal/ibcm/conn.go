// SPDX-License-Identifier: Apache-2.0

package ibcm

import (
	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/wire/ib"
	"github.com/ramjet-rdma/ramjet/wire/mad"
)

// state is where a connection or a resolution stands (IBTA 12.9.5 and 12.9.6).
type state uint8

const (
	reqSent     state = iota // active: waits for the REP
	repRcvd                  // active: the program has to answer
	reqRcvd                  // passive: the program has to answer
	repSent                  // passive: waits for the RTU
	established              // both
	dreqSent                 // waits for the DREP
	timeWait                 // ended; packets may be under way still
	refused                  // rejected or answered: only answers repetitions, see grave
	sidrSent                 // asks for a service
	sidrRcvd                 // is asked: the program has to answer
)

// conn is one side of a connection, or of a service ID resolution.
type conn struct {
	id     mad.CommID
	remote mad.CommID // 0: not known yet
	tid    uint64     // of the REQ: all messages of the set-up have it
	to     verbs.AHAttr

	state     state
	sidr      bool // a resolution
	asked     bool // the peer asked, with a REQ or a SIDR_REQ
	xrc       bool // the target's QPN travels as an EE context
	alternate bool // the REQ had an alternate path
	quiet     bool // released: no events

	localQPN  ib.QPN
	remoteQPN ib.QPN
	guid      uint64        // the peer's CA GUID, where it asked
	wait      mad.Timeout   // how long time wait lasts
	service   mad.ServiceID // of resolutions: what was asked for

	place    place // in a listener's backlog
	repeat   repeat
	deadline Time
	due      int // its place in deadlines, from 1
}

// peer identifies who is at the other end of an address.
type peer struct {
	gid ib.GID
	lid uint16
}

func peerOf(to *verbs.AHAttr) peer { return peer{to.DGID, to.DLID} }

// requestKey is what the repetitions of a REQ or of a SIDR_REQ have in common.
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

// open gives c an ID; nil where there is no room.
func (e *Engine) open(c conn) *conn {
	if e.Connections() >= e.config.MaxConnections || uint64(len(e.byID)+1) >= 1<<freeBits(e.config.IDMask) {
		return nil
	}
	for {
		c.id = mad.CommID(e.config.IDBase | e.nextID()&^e.config.IDMask)
		if c.id != 0 && e.byID[c.id] == nil {
			e.byID[c.id] = &c
			if c.asked {
				e.requests[c.requestKey()] = &c
			}
			return &c
		}
	}
}

// confirmed says that the peer has answered what only we can have sent to it: c is the connection
// of its QP. Another one that was is stale, as the peer has lost it (IBTA 12.9.8.3.1).
func (e *Engine) confirmed(now Time, c *conn) {
	k := c.remoteQP()
	stale := e.byQP[k]
	e.byQP[k] = c
	if stale != nil && stale != c {
		e.drop(now, stale)
	}
}

// partFromQP lets the peer use its QP for another connection.
func (e *Engine) partFromQP(c *conn) {
	if k := c.remoteQP(); e.byQP[k] == c {
		delete(e.byQP, k)
	}
}

// forget drops c from everything.
func (e *Engine) forget(c *conn) {
	c.place.leave()
	e.deadlines.set(c, 0)
	e.partFromQP(c)
	if c.asked {
		delete(e.requests, c.requestKey())
	}
	delete(e.byID, c.id)
}

// find returns the connection that a message of an established conversation
// belongs to.
func (e *Engine) find(from *verbs.AHAttr, local, remote mad.CommID) *conn {
	c := e.byID[local]
	if c == nil || c.sidr || c.remote != remote || peerOf(&c.to) != peerOf(from) {
		return nil
	}
	return c
}

// command returns the connection that the program means.
func (e *Engine) command(op string, id mad.CommID) (*conn, error) {
	c := e.byID[id]
	if c == nil || c.quiet || c.state == refused {
		return nil, opErr(op, ErrNotFound, "no connection has this communication ID, or its last event was delivered")
	}
	return c, nil
}

// enterTimeWait ends c; its ID stays known until nothing of it is under way
// any more (IBTA 12.9.8.4). The peer's QP is free at once, as with Linux.
func (e *Engine) enterTimeWait(now Time, c *conn) {
	c.place.leave()
	c.state = timeWait
	e.partFromQP(c)
	e.deadlines.set(c, now+Time(c.wait.Duration()))
}

const (
	graveTime = Time(20e9) // ns; as long as repetitions of a request can be expected
	maxGraves = 1024
)

// bury forgets c for the program, but answers repetitions with its last
// message, if it has any, for a while. All graves last equally long, so the
// first in the queue is the first to go.
func (e *Engine) bury(now Time, c *conn) {
	c.place.leave()
	c.state = refused
	e.partFromQP(c)
	e.deadlines.set(c, 0)
	c.deadline = now + graveTime
	if len(e.graves) == maxGraves {
		e.forget(e.graves[0])
		e.graves = e.graves[1:]
	}
	e.graves = append(e.graves, c)
}
