// SPDX-License-Identifier: Apache-2.0

package ibcm

import (
	"container/list"
	"time"

	"github.com/ramjet-rdma/ramjet/internal/base/clock"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// A backlog holds the half-open connections of a listener: requests that the program has not answered, and
// connections that it has accepted and whose peers have not confirmed. Any host can create either
// with one datagram and in anybody's name. So when there is no room left
//
//   - the peer that was silent for longest goes first, if an honest one would have sent something
//     in that time,
//   - a source, that is an address, that has many places leaves the rest to others,
//   - a request that still finds no place is dropped, not refused: an honest peer repeats it.
type backlog struct {
	entryLists
	limit   int // unanswered requests
	sources map[peer]*source
	busiest *source // a source with the most unanswered requests, or nearly so
}

// entryLists are connections in the order in which their peers were last heard, the longest ago first.
type entryLists struct{ unanswered, halfOpen list.List }

// source is the places of one address in a backlog.
type source struct {
	peer
	entryLists
}

const (
	// minHalfOpen is the minimum number of places for connections that wait for their RTU: a
	// program may ask for a backlog of 1, and peers confirm at their leisure.
	minHalfOpen = 128
	// silentHalfOpen is how long the peer of an accepted connection may be silent while others want
	// its place: an honest one answers within a round trip.
	silentHalfOpen = clock.Time(250 * time.Millisecond)
	// silentRequest is how long the peer of an unanswered request may be silent. An honest one
	// repeats its request more often, or each time that the time given by an MRA is over.
	silentRequest = clock.Time(10 * time.Second)
	// maxCrowdedRepeats is how often a REP is repeated while more than half of the places for
	// half-open connections are taken.
	maxCrowdedRepeats = 2
)

// room returns the number of places for half-open connections.
func (b *backlog) room() int { return max(b.limit, minHalfOpen) }

// overHalf reports whether more than half of the places for half-open connections are taken.
func (b *backlog) overHalf() bool { return 2*b.halfOpen.Len() > b.room() }

// backlogEntry is a connection's place in the backlog of a listener; zero: it has none.
type backlogEntry struct {
	listener      *listener
	source        *source
	halfOpen      bool
	all, bySource *list.Element // in the lists of the backlog, and of the source
	lastHeard     clock.Time    // when something was last received from the peer, or sent to it
}

// join gives c a place among the unanswered or the half-open.
func (l *listener) join(now clock.Time, c *conn, halfOpen bool) {
	p := peerOf(&c.to)
	s := l.sources[p]
	if s == nil {
		s = &source{peer: p}
		l.sources[p] = s
	}
	c.entry = backlogEntry{listener: l, source: s, halfOpen: halfOpen, lastHeard: now}
	all, own := c.entry.lists()
	c.entry.all, c.entry.bySource = all.PushBack(c), own.PushBack(c)
	if l.busiest == nil || s.unanswered.Len() > l.busiest.unanswered.Len() {
		l.busiest = s
	}
}

// accepted moves c to the half-open connections.
func (p *backlogEntry) accepted(now clock.Time, c *conn) {
	if l := p.listener; l != nil {
		p.leave()
		l.join(now, c, true)
	}
}

// touch records that the peer was heard.
func (p *backlogEntry) touch(now clock.Time) {
	if p.listener != nil {
		all, own := p.lists()
		all.MoveToBack(p.all)
		own.MoveToBack(p.bySource)
		p.lastHeard = now
	}
}

// lists returns the lists that contain the entry.
func (p *backlogEntry) lists() (all, own *list.List) {
	if p.halfOpen {
		return &p.listener.halfOpen, &p.source.halfOpen
	}
	return &p.listener.unanswered, &p.source.unanswered
}

// leave gives up the place, if there is one.
func (p *backlogEntry) leave() {
	l, s := p.listener, p.source
	if l == nil {
		return
	}
	all, own := p.lists()
	all.Remove(p.all)
	own.Remove(p.bySource)
	if s.unanswered.Len()+s.halfOpen.Len() == 0 {
		delete(l.sources, s.peer)
	}
	if l.busiest == s && s.unanswered.Len() == 0 {
		l.busiest = nil
	}
	*p = backlogEntry{}
}

// oldest returns the first of a list if its peer has been silent for long enough.
func oldest(of *list.List, now, silent clock.Time) *conn {
	if f := of.Front(); f != nil {
		if c := f.Value.(*conn); now-c.entry.lastHeard >= silent {
			return c
		}
	}
	return nil
}

// admits reports whether there is room for another request of a peer, and makes room if possible. A
// request that is not for a connection has no half-open state.
func (e *Engine) admits(now clock.Time, b *backlog, from *verbs.AHAttr, connection bool) bool {
	s := b.sources[peerOf(from)]
	if s == nil {
		s = &source{}
	}
	var request, accepted *conn
	if b.unanswered.Len() >= b.limit {
		if request = b.unansweredFor(now, s); request == nil {
			return false
		}
	}
	// A source may have as many half-open connections as there are places left: one source has half
	// of the places, each of k has 1/(k+1), and a new one always finds a place.
	if free := b.room() - b.halfOpen.Len(); connection && s.halfOpen.Len() >= free {
		row := &s.halfOpen
		if free <= 0 {
			row = &b.halfOpen
		}
		if accepted = oldest(row, now, silentHalfOpen); accepted == nil {
			return false
		}
	}
	if request != nil {
		e.giveUp(now, request)
	}
	if accepted != nil {
		e.giveUp(now, accepted)
	}
	return true
}

// unansweredFor returns the request that gives way to a request of s: a request whose peer has given
// up, or else the last request of a source that has more of them.
func (b *backlog) unansweredFor(now clock.Time, s *source) *conn {
	if c := oldest(&b.unanswered, now, silentRequest); c != nil {
		return c
	}
	if m := b.busiest; m != nil && m.unanswered.Len() > s.unanswered.Len()+1 {
		return m.unanswered.Back().Value.(*conn)
	}
	return nil
}
