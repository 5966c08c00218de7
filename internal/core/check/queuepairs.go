// SPDX-License-Identifier: Apache-2.0

package check

import (
	"fmt"
	"slices"
)

const (
	// maxUnannounced is how many WRITEs of a queue pair are followed until the target is told of them.
	maxUnannounced = 64
	// maxEarly is how many WRITEs are kept that another queue pair may have announced.
	maxEarly = 64
)

// ordering is a queue pair's record of the WRITEs that its peer knows of.
type ordering struct {
	unannounced []*posted // WRITEs that nothing behind them tells of, and whose completions were not polled, in order
	announced   uint64    // when the last work request was posted that a peer notices
	silent      uint64    // when the last completion of a WRITE was polled that the peer had not been told of
}

// early is a WRITE that was under way as its target heard from its requester on another queue pair. That is a mistake
// if the target never hears of the WRITE in another way.
type early struct {
	write, news *posted
	log, other  *postLog // of them
	peers       [2]*postLog
	heard       Place
	dismissed   bool
}

// announces reports whether a peer notices a work request: it is a message, or at a word, as flags and counters are.
func announces(p *posted) bool {
	op := &operations[p.op]
	return op.message || op.word || op.writes() && p.length > 0 && p.length <= word
}

// order notes a work request of a queue pair.
func (h *history) order(l *postLog, p *posted) {
	switch {
	case announces(p):
		h.announce(l, p)
		l.announced = p.at
		for _, w := range l.unannounced {
			h.release(w)
		}
		h.forget(l, nil)
	case operations[p.op].writes() && p.length > word:
		if len(l.unannounced) == maxUnannounced {
			h.release(l.unannounced[0])
			l.unannounced = l.unannounced[1:]
		}
		p.refs++
		if l.unannounced = append(l.unannounced, p); len(l.unannounced) == 1 {
			h.pending[l] = true
		}
	}
}

// finished notes a work request whose completion was polled.
func (h *history) finished(p *posted, ok bool) {
	l := h.log(p.end)
	if l == nil || len(l.unannounced) == 0 || p.at < l.unannounced[0].at {
		return
	}
	switch i := slices.Index(l.unannounced, p); i {
	case -1:
		return
	case 0: // most complete in order
		h.forget(l, l.unannounced[1:])
	default:
		h.forget(l, slices.Delete(l.unannounced, i, i+1))
	}
	h.release(p)
	if !h.askNoticed(l, p, p.done) && ok {
		l.silent = p.done
	}
}

func (h *history) forget(l *postLog, left []*posted) {
	l.unannounced = left
	if len(left) == 0 {
		delete(h.pending, l)
	}
}

// news keeps the WRITEs that are under way to a device as the device's program notices another work request of the same
// requester, which was posted later.
func (h *history) news(p *posted, at endpoint) {
	for l := range h.pending {
		peer, other := h.peer(l.end), h.logs[p.end]
		if l == other || other == nil || l.end.dev != p.end.dev || peer == nil || peer.end.dev != at.dev ||
			comesBack(l, peer, other, h.logs[at]) {
			continue
		}
		n := 0
		for n < len(l.unannounced) && l.unannounced[n].at < p.at {
			n++
		}
		if n == 0 {
			continue
		}
		e := &early{write: l.unannounced[n-1], news: p, log: l, other: other, peers: [2]*postLog{peer, h.logs[at]},
			heard: seen()}
		e.write.kept, e.news.kept = true, true
		h.forget(l, slices.Delete(l.unannounced, 0, n))
		h.keepEarly(e)
	}
}

// keepEarly keeps a WRITE that was noticed too early, instead of the oldest if there are many.
func (h *history) keepEarly(e *early) {
	if len(h.early) == maxEarly {
		h.early = slices.Delete(h.early, 0, 1)
	}
	h.early = append(h.early, e)
}

// comesBack reports whether a message on another queue pair may have come to the requester of a WRITE, and not to its
// target: both are on one device then, and the message is of the WRITE's own peer, or completes where the WRITE does.
func comesBack(write, peer, other, at *postLog) bool {
	return other == peer || at != nil && write.end.dev == at.end.dev && write.cqs[0] == at.cqs[1]
}

func seen() Place { return at("The target noticed it") }

// announced dismisses the WRITEs that a queue pair has announced in time: behind them, or elsewhere after they have
// completed.
func (h *history) announced(l *postLog) {
	for _, e := range h.early {
		switch {
		case l == e.log:
			e.dismissed = e.dismissed || l.announced > e.write.at
		case l == e.peers[0] || l == e.peers[1] || l.end.dev != e.log.end.dev:
		default:
			if e.write.done != 0 && l.announced > e.write.done {
				e.dismissed = true
			}
			if l.announced > e.log.silent {
				e.log.silent = 0
			}
		}
	}
}

// settleEarly reports the WRITEs of which the target was never told in time. Where it was never told of others either,
// it learns of them in another way.
func (h *history) settleEarly() {
	for _, l := range h.logs {
		h.announced(l)
	}
	for _, e := range h.early {
		if !e.dismissed && e.log.silent == 0 {
			h.report(endpoint{}, e.finding)
		}
	}
	h.early = nil
}

func (e *early) finding() *Finding {
	write, news := e.write.place, e.news.place
	write.What = fmt.Sprintf("%v %#x was posted", e.write.op, e.write.id)
	news.What = fmt.Sprintf("%v %#x was posted", e.news.op, e.news.id)
	return &Finding{QueuePairOrder,
		fmt.Sprintf("%v %#x of %s was posted, and the target noticed it, before the completion of "+
			"%v %#x of %s was polled, %d bytes at %#x. Nothing else told the target of these.", e.news.op, e.news.id,
			e.other.name, e.write.op, e.write.id, e.log.name, e.write.length, e.write.remote.Addr), []Place{write, news,
			e.heard}}
}
