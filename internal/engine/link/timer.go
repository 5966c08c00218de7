// SPDX-License-Identifier: Apache-2.0

package link

import "github.com/ramjet-rdma/ramjet/internal/base/clock"

// timer is a deadline in the heap.
type timer struct {
	when clock.Time // 0: not set
	seq  uint64     // orders timers due at the same time by when they were set
	pos  int        // in the heap
	kind timerKind
	port *Port // of all kinds but agentTimer
	node *Node // of agentTimer
}

type timerKind uint8

const (
	txTimer      timerKind = iota // the last byte of a packet has left
	arrivalTimer                  // something arrives over the cable
	refreshTimer                  // flow control packets are to be repeated
	expireTimer                   // a queued packet may have expired
	downTimer                     // a link that a manager has taken down goes down
	lateTimer                     // a packet that was held back is to be sent
	agentTimer                    // the node's agent has traps to send
	numTimers
)

// timers is a 4-ary heap.
type timers struct {
	heap []*timer
	seq  uint64
}

func (t *timer) before(u *timer) bool {
	return t.when < u.when || t.when == u.when && t.seq < u.seq
}

// set sets t to when, whether or not it was set before.
func (h *timers) set(t *timer, when clock.Time) {
	h.seq++
	if t.when == 0 {
		t.when, t.seq = when, h.seq
		t.pos = len(h.heap)
		h.heap = append(h.heap, t)
		h.up(t)
		return
	}
	t.when, t.seq = when, h.seq
	h.up(t)
	h.down(t)
}

// stop unsets t.
func (h *timers) stop(t *timer) {
	if t.when == 0 {
		return
	}
	t.when = 0
	last := h.heap[len(h.heap)-1]
	h.heap = h.heap[:len(h.heap)-1]
	if last == t {
		return
	}
	last.pos = t.pos
	h.heap[last.pos] = last
	h.up(last)
	h.down(last)
}

// next returns when the earliest timer is due; 0: none is set.
func (h *timers) next() clock.Time {
	if len(h.heap) == 0 {
		return 0
	}
	return h.heap[0].when
}

func (h *timers) up(t *timer) {
	for t.pos > 0 {
		parent := h.heap[(t.pos-1)/4]
		if !t.before(parent) {
			return
		}
		h.swap(t, parent)
	}
}

func (h *timers) down(t *timer) {
	for {
		first := t.pos*4 + 1
		if first >= len(h.heap) {
			return
		}
		least := h.heap[first]
		for _, c := range h.heap[first+1 : min(first+4, len(h.heap))] {
			if c.before(least) {
				least = c
			}
		}
		if !least.before(t) {
			return
		}
		h.swap(t, least)
	}
}

func (h *timers) swap(a, b *timer) {
	a.pos, b.pos = b.pos, a.pos
	h.heap[a.pos], h.heap[b.pos] = a, b
}
