// SPDX-License-Identifier: Apache-2.0

package ibcm

import (
	"github.com/ramjet-rdma/ramjet/internal/base/clock"
	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/wire/mad"
)

// NextMAD takes the next datagram to send. It returns false if there is none.
func (e *Engine) NextMAD(o *Datagram) bool { return e.out.next(o) }

// NextEvent takes the next event. It returns false if there is none.
func (e *Engine) NextEvent(ev *Event) bool { return e.events.next(ev) }

// queue is drained after every input, so it starts over whenever it is empty.
type queue[T any] struct {
	items []T
	taken int
}

func (q *queue[T]) put(v T) { q.items = append(q.items, v) }

func (q *queue[T]) next(v *T) bool {
	if q.taken == len(q.items) {
		return false
	}
	var none T
	*v, q.items[q.taken] = q.items[q.taken], none
	if q.taken++; q.taken == len(q.items) {
		q.items, q.taken = q.items[:0], 0
	}
	return true
}

// emit adds an event of c.
func (e *Engine) emit(c *conn, ev Event) {
	if !c.released {
		ev.ID = c.id
		e.events.put(ev)
	}
}

type message interface{ Append(b []byte) []byte }

func encode(a mad.Attribute, tid uint64, m message) *[mad.Size]byte {
	var b [mad.Size]byte
	h := mad.CMHeader(a, tid)
	m.Append(h.Append(b[:0]))
	return &b
}

// reply sends a message that is not repeated, in the partition of the datagram that it answers.
func (e *Engine) reply(to verbs.AHAttr, a mad.Attribute, tid uint64, m message) {
	e.out.put(Datagram{to, e.pkey, *encode(a, tid, m)})
}

// send sends a message that is kept, to be repeated when the peer repeats its own.
func (e *Engine) send(c *conn, a mad.Attribute, tid uint64, m message) {
	c.repeat.last = encode(a, tid, m)
	e.resend(c)
}

// resend repeats the last message, if there is one.
func (e *Engine) resend(c *conn) {
	if c.repeat.last != nil {
		e.out.put(Datagram{c.to, c.pkey, *c.repeat.last})
	}
}

// sendRequest sends a message that is repeated until it is answered.
func (e *Engine) sendRequest(now clock.Time, c *conn, a mad.Attribute, tid uint64, m message) {
	e.send(c, a, tid, m)
	r := &c.repeat
	r.tid, r.retries, r.extension = tid, r.max, extension{notified: r.extension.notified}
	e.deadlines.set(c, now+c.repeatDelay())
}

// tid returns the transaction ID of the next request of c. Its low half names this process among
// the processes of the address. Its high half can be predicted by no peer that does not see the message.
func (e *Engine) tid(c *conn) uint64 { return uint64(e.tidTop())<<32 | uint64(c.id) }
