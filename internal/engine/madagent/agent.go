// SPDX-License-Identifier: Apache-2.0

package madagent

import (
	"errors"

	"github.com/ramjet-rdma/ramjet/internal/base/clock"
	"github.com/ramjet-rdma/ramjet/verbs/umad"
	"github.com/ramjet-rdma/ramjet/wire/mad"
)

// maxRequests limits the requests without a response.
const maxRequests = 4096

// ErrFull means that too many requests wait for responses.
var ErrFull = errors.New("madagent: too many requests wait for responses")

// Datagram is a management datagram to send.
type Datagram struct {
	To  umad.Path
	MAD [umad.Len]byte
}

// Event is a received datagram, or a request that has timed out.
type Event struct {
	Path     umad.Path // the source of the datagram, or the destination of a request that timed out
	Data     []byte    // a datagram, or a reassembled response
	TimedOut bool      // Data is a request without a response
}

// Agent is the state of one agent. Its zero value is ready to use.
type Agent struct {
	RMPP bool // reassemble responses in segments

	requests  []*request
	completed completed
	out       []Datagram
	events    []Event
}

// request is a request without a response.
type request struct {
	Datagram
	class    mad.Class
	tid      uint64
	timeout  clock.Time
	retries  int
	deadline clock.Time
	response *assembly // nil: no segment has been received
}

// Request records a request that the caller sends. It is repeated after each timeout, retries times, and then
// becomes an event.
func (a *Agent) Request(now clock.Time, d *Datagram, timeout clock.Time, retries int) error {
	var h mad.Header
	h.Decode(d.MAD[:])
	if len(a.requests) == maxRequests {
		return ErrFull
	}
	a.requests = append(a.requests, &request{Datagram: *d, class: h.Class, tid: h.TID, timeout: timeout,
		retries: retries, deadline: now + timeout})
	return nil
}

// Forget removes a request that could not be sent.
func (a *Agent) Forget(tid uint64) {
	for i, q := range a.requests {
		if q.tid == tid {
			a.forget(i)
			return
		}
	}
}

// Handle handles a received datagram.
func (a *Agent) Handle(now clock.Time, from *umad.Path, b []byte) {
	var h mad.Header
	if !h.Decode(b) || len(b) != umad.Len {
		return
	}
	if !h.Method.Answers() {
		a.events = append(a.events, Event{Path: *from, Data: append([]byte(nil), b...)})
		return
	}
	i := a.find(&h)
	if i < 0 {
		a.acknowledgeAgain(&h, from, b)
		return
	}
	q := a.requests[i]
	if a.RMPP {
		if used, done := a.segment(now, q, from, b); used && !done {
			return
		} else if used {
			b = q.response.data
		}
	}
	a.forget(i)
	a.events = append(a.events, Event{Path: *from, Data: append([]byte(nil), b...)})
}

// find returns the request that a datagram answers, or -1.
func (a *Agent) find(h *mad.Header) int {
	for i, q := range a.requests {
		if q.tid == h.TID && q.class == h.Class {
			return i
		}
	}
	return -1
}

func (a *Agent) forget(i int) {
	last := len(a.requests) - 1
	a.requests[i] = a.requests[last]
	a.requests[last] = nil
	a.requests = a.requests[:last]
}

// HandleTimeout repeats requests whose deadline has passed, or times them out.
func (a *Agent) HandleTimeout(now clock.Time) {
	for i := 0; i < len(a.requests); i++ {
		q := a.requests[i]
		if q.deadline > now {
			continue
		}
		if q.retries > 0 && q.response == nil {
			q.retries--
			q.deadline = now + q.timeout
			a.out = append(a.out, q.Datagram)
			continue
		}
		a.events = append(a.events, Event{Path: q.To, Data: append([]byte(nil), q.MAD[:]...), TimedOut: true})
		a.forget(i)
		i--
	}
}

// Deadline returns when HandleTimeout is due, 0: never.
func (a *Agent) Deadline() (at clock.Time) {
	for _, q := range a.requests {
		if at == 0 || q.deadline < at {
			at = q.deadline
		}
	}
	return at
}

// NextDatagram returns the next datagram to send in d; false: there is none.
func (a *Agent) NextDatagram(d *Datagram) bool {
	if len(a.out) == 0 {
		return false
	}
	*d = a.out[0]
	a.out = a.out[1:]
	return true
}

// NextEvent returns the next event in e; false: there is none.
func (a *Agent) NextEvent(e *Event) bool {
	if len(a.events) == 0 {
		return false
	}
	*e = a.events[0]
	a.events = a.events[1:]
	return true
}
