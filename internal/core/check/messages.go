// SPDX-License-Identifier: Apache-2.0

package check

import "github.com/ramjet-rdma/ramjet/verbs"

const (
	// maxMessages is how many messages of a queue pair are remembered.
	maxMessages = 256
	// maxSources is among how many queue pairs the sender of a datagram is looked for.
	maxSources = 64
)

// messages are the work requests of a queue pair that use up receives of the peer.
type messages struct {
	sent, received uint64
	matched        uint64         // as many have been looked at, where messages may be lost
	heard          uint64         // as many were posted before a receive of the peer was polled
	last           []*sentMessage // a ring
}

// sentMessage is a message, and the queue pair that it goes to, if it is a datagram.
type sentMessage struct {
	*posted
	to verbs.QPN
}

func (m *messages) send(p *posted, to verbs.QPN) {
	if m.last == nil {
		m.last = make([]*sentMessage, maxMessages)
	}
	m.last[m.sent%maxMessages] = &sentMessage{p, to}
	m.sent++
	p.number = m.sent
}

func (m *messages) unsend() {
	if m.sent > 0 {
		m.sent--
		m.last[m.sent%maxMessages] = nil
	}
}

// nth returns a message by its number, from 1; nil: it was not posted, or is forgotten.
func (m *messages) nth(n uint64) *sentMessage {
	if n == 0 || n > m.sent || n+maxMessages <= m.sent {
		return nil
	}
	return m.last[(n-1)%maxMessages]
}

// hear notes that the receiver has polled a receive: from then on it may know of every message that was posted before.
func (m *messages) hear(now uint64) {
	first := m.heard + 1
	if m.sent > maxMessages {
		first = max(first, m.sent-maxMessages+1)
	}
	for n := first; n <= m.sent; n++ {
		if p := m.nth(n); p != nil {
			p.posted.heard = now
		}
	}
	m.heard = m.sent
}

// postRecv notes a receive that is about to be posted, if peers may write to its memory.
func (h *history) postRecv(d *Device, r *request) {
	h.mu.Lock()
	defer h.mu.Unlock()
	p := &posted{end: endpoint{dev: d}, id: r.id, recv: true, at: h.tick(), place: r.posted, kept: true}
	if r.qp != nil {
		p.end.qpn = r.qp.qp.Num()
	}
	if h.own(p, r.pieces) {
		r.noted = p
	}
}

// polled notes that completions were polled.
func (h *history) polled(d *Device, ends []ending) {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := h.tick()
	for i := range ends { // of sends first: the program gets them together
		if e := &ends[i]; e.recvs == nil && e.noted != nil && e.noted.done == 0 {
			e.noted.done = now
			h.finished(e.noted, e.received != 0)
			h.release(e.noted)
			e.noted = nil
		}
	}
	for i := range ends {
		if e := &ends[i]; e.recvs != nil {
			h.got(endpoint{d, e.wc.QPN}, e)
		}
	}
}

// got notes that the completion of a receive was polled.
func (h *history) got(at endpoint, e *ending) {
	now := h.tick()
	if e.noted != nil {
		e.noted.done = now
	}
	l := h.logs[at]
	if l == nil || e.wc.Status != verbs.StatusSuccess {
		return
	}
	l.received++
	h.heardOf(at)
	m := h.message(l, e)
	if from := h.peer(at); from != nil {
		from.hear(now)
	} else {
		h.tellNoticed(at, &posted{op: verbs.OpSend, number: l.numberOf(e)})
	}
	if m == nil {
		return
	}
	if e.noted != nil {
		e.noted.end, e.noted.from = at, m
		h.judgeReceive(e.noted)
	}
	h.news(m, at)
}

// message returns the message that a receive of a queue pair got; nil: it is not certain.
func (h *history) message(l *postLog, e *ending) *posted {
	var m *sentMessage
	switch from := h.peer(l.end); {
	case l.typ == verbs.UD:
		if from = h.source(e.wc.SrcQPN); from != nil {
			m = from.only(l.end.qpn)
		}
	case from == nil:
	case l.typ == verbs.UC:
		m = from.only(0)
	case l.typ == verbs.RC:
		m = from.nth(l.numberOf(e))
	}
	if m == nil {
		return nil
	}
	return m.posted
}

// numberOf returns which of the messages of a reliable connection a receive got, which was polled just now.
func (l *postLog) numberOf(e *ending) uint64 {
	if e.seq != 0 {
		return e.seq
	}
	return l.received
}

// only returns the one message that was posted since the last call: of several any may be lost.
func (m *messages) only(to verbs.QPN) *sentMessage {
	one := m.sent == m.matched+1
	m.matched = m.sent
	if s := m.nth(m.sent); one && s != nil && s.to == to {
		return s
	}
	return nil
}

// source returns the queue pair that sends datagrams with a number; nil: there is none, or several.
func (h *history) source(n verbs.QPN) (found *postLog) {
	if len(h.logs) > maxSources {
		return nil
	}
	for e, l := range h.logs {
		if e.qpn != n || l.typ != verbs.UD {
			continue
		}
		if found != nil {
			return nil
		}
		found = l
	}
	return found
}
