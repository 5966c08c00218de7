// SPDX-License-Identifier: Apache-2.0

package simnet

import (
	"syscall"

	"github.com/ramjet-rdma/ramjet/trace"
)

// segment is something that one end of a stream sends.
type segment struct {
	at       instant // when it arrives, if it can
	data     []byte
	fin, rst bool
}

// segments are the segments on their way to the peer. They arrive in order: a lost segment holds up the segments
// behind it until it has been sent again.
type segments struct {
	queue     []segment
	scheduled bool
	retry     instant // until a lost segment is sent again; 0: firstRetry
}

// cut returns how long the next segment is: full ones mostly.
func (w *segments) cut(l *link) int {
	r := l.streams.net.path(l.streams.host, l.peer.streams.host).length
	if r.IntN(4) == 0 {
		return 1 + r.IntN(mss)
	}
	return mss
}

func (w *segments) waits() bool { return len(w.queue) > 0 }

// add sends a segment.
func (w *segments) add(l *link, s segment) {
	n := l.streams.net
	p := n.path(l.streams.host, l.peer.streams.host)
	s.at = p.leaves(n.now(), len(s.data)+20) + instant(p.Delay)
	for again := firstRetry; p.loss.strikes(p.Loss) && again < lastRetry; again *= 2 {
		s.at += again
	}
	n.line(s.name()+"-out", l.from, l.to, s.data)
	n.keepSegment(l, s.flags(), s.data)
	w.queue = append(w.queue, s)
	w.schedule(l)
}

func (s *segment) flags() trace.TCPFlags {
	switch {
	case s.rst:
		return trace.RST | trace.ACK
	case s.fin:
		return trace.FIN | trace.ACK
	}
	return trace.PSH | trace.ACK
}

func (s *segment) name() string {
	switch {
	case s.rst:
		return "rst"
	case s.fin:
		return "fin"
	}
	return "data"
}

// drop forgets segments that have not arrived.
func (w *segments) drop() { w.queue = nil }

// schedule has the first segment arrive.
func (w *segments) schedule(l *link) {
	if w.scheduled || len(w.queue) == 0 {
		return
	}
	w.scheduled = true
	l.streams.net.at(w.queue[0].at, func() {
		w.scheduled = false
		w.arrive(l)
		w.schedule(l)
	})
}

// arrive takes the first segment to the peer, if it can get there.
func (w *segments) arrive(l *link) {
	n := l.streams.net
	if len(w.queue) == 0 {
		return // dropped
	}
	s := &w.queue[0]
	if s.at > n.now() {
		return // another one than the event was for
	}
	from, to := l.streams.host, l.peer.streams.host
	if !from.reaches(to) || !to.reaches(from) {
		if w.retry = min(max(firstRetry, 2*w.retry), lastRetry); l.closed && (from.off || to.off) {
			w.drop()
			return
		}
		s.at = n.now() + w.retry
		return
	}
	w.retry = 0
	l.heard = n.now()
	first := *s
	w.queue = w.queue[1:]
	n.line(first.name()+"-in", l.from, l.to, first.data)
	l.peer.got += uint32(len(first.data))
	l.peer.take(&first)
}

// take takes a segment that has arrived.
func (l *link) take(s *segment) {
	l.heard = l.streams.net.now()
	switch {
	case l.err != nil:
		return
	case s.rst:
		l.fail(syscall.ECONNRESET)
		return
	case l.closed && len(s.data) > 0:
		l.peer.fail(syscall.ECONNRESET) // as if the answer took no time
		return
	case s.fin:
		l.eof = true
	default:
		l.arrived = append(l.arrived, s.data...)
	}
	if !l.streams.host.stopped {
		l.streams.look()
	}
}

// ask asks the peer for a stream, for the try-th time.
func (l *link) ask(try int) {
	n := l.streams.net
	there := l.streams.host
	h := n.hostAt(l.to.Addr())
	again := func() {
		if try == synTries {
			l.fail(syscall.ETIMEDOUT)
			return
		}
		n.at(n.now()+synRetry<<(try-1), func() { l.ask(try + 1) })
	}
	if l.closed || l.err != nil {
		return
	}
	if h == nil || !there.reaches(h) {
		again()
		return
	}
	p := n.path(there, h)
	if try <= synLosses && p.loss.strikes(p.Loss) {
		again()
		return
	}
	n.at(n.now()+instant(p.Delay), func() {
		if l.closed {
			return
		}
		back := n.path(h, there)
		if !there.reaches(h) || !h.reaches(there) || try <= synLosses && back.loss.strikes(back.Loss) {
			again()
			return
		}
		a := n.find(l.to)
		if a != nil && len(a.links) >= a.backlog {
			again()
			return
		}
		if a == nil {
			n.at(n.now()+instant(back.Delay), func() { l.fail(syscall.ECONNREFUSED) })
			return
		}
		peer := &link{streams: a.streams, from: l.to, to: l.from, peer: l, heard: n.now()}
		l.peer = peer
		n.keepSegment(l, trace.SYN, nil)
		peer.got++
		n.keepSegment(peer, trace.SYN|trace.ACK, nil)
		l.got++
		a.links = append(a.links, peer)
		a.streams.look()
		peer.keep()
		n.at(n.now()+instant(back.Delay), func() {
			if l.closed {
				l.peer.fail(syscall.ECONNRESET)
				return
			}
			if l.err == nil {
				l.connecting = false
				l.heard = n.now()
				n.line("connected", l.from, l.to, nil)
				l.streams.look()
				l.keep()
			}
		})
	})
}

// keep asks now and then whether the peer is there, while nothing else is to be acknowledged.
func (l *link) keep() {
	n := l.streams.net
	n.at(n.now()+keepBeat, func() {
		if l.closed || l.err != nil {
			return
		}
		from, to := l.streams.host, l.peer.streams.host
		switch {
		case from.reaches(to) && to.reaches(from):
			l.heard = n.now()
			if l.peer.closed && l.peer.err != nil {
				l.fail(syscall.ECONNRESET)
				return
			}
		case !l.way.waits() && n.now()-l.heard >= keepSilence:
			l.fail(syscall.ETIMEDOUT)
			return
		}
		l.keep()
	})
}
