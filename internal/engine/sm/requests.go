// SPDX-License-Identifier: Apache-2.0

package sm

import (
	"github.com/ramjet-rdma/ramjet/internal/base/clock"
	"github.com/ramjet-rdma/ramjet/internal/engine/node"
	"github.com/ramjet-rdma/ramjet/wire/ib"
	"github.com/ramjet-rdma/ramjet/wire/mad"
	"github.com/ramjet-rdma/ramjet/wire/mad/smp"
)

// maxWindow limits the requests in flight: transaction ids have 8 bits for the slot.
const maxWindow = 256

// purpose is the purpose of a request, by which its response or failure is handled.
type purpose uint8

const (
	discovering purpose = iota + 1 // a node's or a port's attributes
	configuring
	probing     // light sweep
	polling     // of the master by a standby manager
	handingOver // to another manager
)

// request is an SMP to a port, repeated until it is answered.
type request struct {
	purpose   purpose
	method    mad.Method
	attribute mad.Attribute
	modifier  uint32
	dev       *device // the node that answers
	port      *port   // that it is about, or nil
	via       *port   // for the NodeInfo of a node that is not known yet: the port before it
	path      []uint8
	data      [smp.DataLen]byte // of a Set

	tid      uint64
	tries    int
	deadline clock.Time // 0: the slot is free
	resend   bool
}

// requests are the requests in flight and the queued ones.
type requests struct {
	slots    []request
	inFlight int // slots in use
	queue    []request
	head     int
	seq      uint32
}

func (q *requests) empty() bool { return q.inFlight == 0 && q.head == len(q.queue) }

// reset forgets all requests.
func (q *requests) reset() {
	clear(q.slots)
	q.queue, q.head, q.inFlight = nil, 0, 0
}

// enqueue queues a request.
func (m *Manager) enqueue(r request) { m.requests.queue = append(m.requests.queue, r) }

// nextRequest returns the next packet to send in d: a repeat, or a new request if the window has room.
func (m *Manager) nextRequest(now clock.Time, d *Datagram) bool {
	q := &m.requests
	if m.resends > 0 {
		for i := range q.slots {
			if r := &q.slots[i]; r.deadline != 0 && r.resend {
				r.resend = false
				m.resends--
				m.writeRequest(now, r, d)
				return true
			}
		}
		m.resends = 0
	}
	for q.inFlight < m.config.Window && q.head < len(q.queue) {
		r := &q.queue[q.head]
		q.head++
		if r.dev != nil && r.dev.unresponsive {
			gone := *r
			m.requestFailed(now, &gone)
			m.advance(now)
			continue
		}
		slot := 0
		for q.slots[slot].deadline != 0 {
			slot++
		}
		q.seq++
		q.slots[slot] = *r
		*r = request{} // drops its references
		r = &q.slots[slot]
		r.tid = uint64(m.config.TIDBase)<<32 | uint64(q.seq)<<8&0xffff_ff00 | uint64(slot)
		q.inFlight++
		if q.head == len(q.queue) {
			q.queue, q.head = q.queue[:0], 0
		}
		m.writeRequest(now, r, d)
		return true
	}
	return false
}

func (m *Manager) writeRequest(now clock.Time, r *request, d *Datagram) {
	r.tries++
	r.deadline = now + clock.Time(m.config.Timeout)
	p := smp.NewDirected(r.method, r.attribute, r.modifier, r.tid, r.path)
	p.MKey, p.Data = m.config.MKey, r.data
	d.QPN, d.LID, d.Peer, d.SL, d.PKey = ib.QP0, node.PermissiveLID, ib.QP0, 0, 0
	p.Append(d.MAD[:0])
	m.Counters.Requests++
}

// takeAnswered removes the request with a transaction id from the window, and returns it.
func (m *Manager) takeAnswered(tid uint64) (request, bool) {
	q := &m.requests
	slot := int(tid & 0xff)
	if slot >= len(q.slots) || q.slots[slot].deadline == 0 || q.slots[slot].tid != tid {
		m.Counters.Unexpected++
		return request{}, false
	}
	r := q.slots[slot]
	m.free(slot)
	return r, true
}

func (m *Manager) free(slot int) {
	if m.requests.slots[slot].resend {
		m.resends--
	}
	m.requests.slots[slot] = request{}
	m.requests.inFlight--
}

// expire repeats requests that were not answered in time, and fails requests that were repeated Config.Retries times.
func (m *Manager) expire(now clock.Time) {
	q := &m.requests
	for i := range q.slots {
		r := &q.slots[i]
		if r.deadline == 0 || r.resend || now < r.deadline {
			continue
		}
		if r.tries <= m.config.Retries && (r.dev == nil || !r.dev.unresponsive) {
			r.resend = true
			m.resends++
			continue
		}
		failed := *r
		m.free(i)
		m.Counters.Timeouts++
		m.requestFailed(now, &failed)
	}
	m.advance(now)
}

// requestDeadline returns when the first request in flight expires; 0: none does.
func (m *Manager) requestDeadline() clock.Time {
	first := clock.Time(0)
	if m.requests.inFlight == 0 {
		return 0
	}
	for i := range m.requests.slots {
		if r := &m.requests.slots[i]; r.deadline != 0 && !r.resend {
			first = earlier(first, r.deadline)
		}
	}
	return first
}

// earlier returns the earlier of two times; 0 means never.
func earlier(a, b clock.Time) clock.Time {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}
