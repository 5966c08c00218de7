// SPDX-License-Identifier: Apache-2.0

package ibcm

import (
	"time"

	"github.com/ramjet-rdma/ramjet/internal/base/clock"
	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/wire/ib"
	"github.com/ramjet-rdma/ramjet/wire/mad"
)

// Defaults, and limits of the values that peers may request.
const (
	defaultResponse       = mad.Timeout(18) // 1.07 s
	defaultRetries        = 15              // the maximum of a REQ; Linux uses it too
	defaultAckTimeout     = mad.Timeout(17) // as Linux computes for RoCE: 0.54 s
	defaultAckDelay       = mad.Timeout(15) // as Linux
	defaultBacklog        = 128
	defaultServiceTimeout = mad.Timeout(21) // 8.6 s
	defaultConnections    = 65536

	minResponse      = mad.Timeout(12)                     // 17 ms: minimum for peers that promise to answer faster
	maxTimeWait      = mad.Timeout(22)                     // 17 s
	extendedInterval = clock.Time(4300 * time.Millisecond) // interval of repetitions while an MRA holds
)

// Engine is a connection manager. Its zero value is not usable, see [New]. It must not be used by
// several goroutines at once.
type Engine struct {
	config Config
	nextID func() uint32 // of communication IDs, see idGenerator
	tidTop func() uint32 // of transaction IDs: their high halves

	services map[mad.ServiceID]*listener // listeners for one service
	ranges   []*listener                 // listeners with a mask, the narrowest first

	byID      map[mad.CommID]*conn
	requests  map[requestKey]*conn // by peers
	byQP      map[remoteQP]*conn   // whose peers have confirmed
	deadlines deadlines
	refused   []*conn // oldest first, see keepRefused

	pkey   ib.PKey // of the datagram at hand; 0: the default partition
	out    queue[Datagram]
	events queue[Event]
}

// New returns an engine without listeners and connections.
func New(config Config) *Engine {
	if config.AckDelay == 0 {
		config.AckDelay = defaultAckDelay
	}
	if config.MaxConnections <= 0 {
		config.MaxConnections = defaultConnections
	}
	n := newIDGenerator(config.Key, freeBits(config.IDMask))
	return &Engine{
		config:   config,
		nextID:   n.id,
		tidTop:   n.tid,
		services: map[mad.ServiceID]*listener{},
		byID:     map[mad.CommID]*conn{},
		requests: map[requestKey]*conn{},
		byQP:     map[remoteQP]*conn{},
	}
}

// HandleMAD handles a datagram that arrived at queue pair 1; from is the path back. The caller may
// reuse the bytes on return. Malformed datagrams and those of another class are ignored.
func (e *Engine) HandleMAD(now clock.Time, from verbs.AHAttr, b []byte) {
	e.HandleMADOf(now, from, 0, b)
}

// HandleMADOf is HandleMAD for a datagram of a partition: the answers are of it, too.
func (e *Engine) HandleMADOf(now clock.Time, from verbs.AHAttr, pkey ib.PKey, b []byte) {
	e.pkey = pkey
	e.handleMAD(now, from, b)
	e.pkey = 0
}

func (e *Engine) handleMAD(now clock.Time, from verbs.AHAttr, b []byte) {
	var h mad.Header
	if len(b) < mad.Size || !h.Decode(b) || h.BaseVersion != mad.BaseVersion || h.Class != mad.ClassCM ||
		h.Method != mad.MethodSend {
		return
	}
	b = b[mad.HeaderLen:]
	if h.ClassVersion != mad.ClassCMVersion {
		e.refuseVersion(from, &h, b)
		return
	}
	switch h.Attribute {
	case mad.AttrREQ:
		e.handleREQ(now, from, h.TID, b)
	case mad.AttrMRA:
		e.handleMRA(now, from, h.TID, b)
	case mad.AttrREJ:
		e.handleREJ(now, from, h.TID, b)
	case mad.AttrREP:
		e.handleREP(now, from, h.TID, b)
	case mad.AttrRTU:
		e.handleRTU(now, from, h.TID, b)
	case mad.AttrDREQ:
		e.handleDREQ(now, from, h.TID, b)
	case mad.AttrDREP:
		e.handleDREP(now, from, h.TID, b)
	case mad.AttrSIDRREQ:
		e.handleSIDRREQ(now, from, h.TID, b)
	case mad.AttrSIDRREP:
		e.handleSIDRREP(from, h.TID, b)
	case mad.AttrLAP:
		e.handleLAP(from, h.TID, b)
	}
}

// Deadline returns when HandleTimeout is due; 0: never.
func (e *Engine) Deadline() (t clock.Time) {
	if len(e.deadlines) > 0 {
		t = e.deadlines[0].deadline
	}
	if len(e.refused) > 0 && (t == 0 || e.refused[0].deadline < t) {
		t = e.refused[0].deadline
	}
	return t
}

// HandleTimeout does everything that is due at now.
func (e *Engine) HandleTimeout(now clock.Time) {
	for len(e.refused) > 0 && e.refused[0].deadline <= now {
		e.remove(e.refused[0])
		e.refused = e.refused[1:]
	}
	for len(e.deadlines) > 0 && e.deadlines[0].deadline <= now {
		c := e.deadlines[0]
		if c.state == timeWait {
			e.emit(c, Event{Kind: EventTimeWaitExit})
			e.remove(c)
		} else {
			e.repeatLast(now, c)
		}
	}
}

// giveUp ends c because the peer does not answer, or was silent while other peers want its place. A peer
// to which messages were sent before gets a REJ, in case only its answers are lost (IBTA 12.9.8.2).
func (e *Engine) giveUp(now clock.Time, c *conn) {
	switch c.state {
	case reqSent:
		e.rejectTimeout(c)
		e.emit(c, Event{Kind: EventUnreachable, Message: mad.AttrREQ})
		e.remove(c)
	case repSent:
		e.rejectTimeout(c)
		e.emit(c, Event{Kind: EventUnreachable, Message: mad.AttrREP})
		e.keepRefused(now, c)
	case sidrSent:
		e.emit(c, Event{Kind: EventUnreachable, Message: mad.AttrSIDRREQ})
		e.remove(c)
	case reqRcvd, sidrRcvd:
		e.emit(c, Event{Kind: EventUnreachable})
		e.remove(c)
	case dreqSent:
		e.emit(c, Event{Kind: EventDisconnected})
		e.enterTimeWait(now, c)
	}
}

// Connections returns how many connections and resolutions the engine holds, including time wait.
func (e *Engine) Connections() int { return len(e.byID) - len(e.refused) }
