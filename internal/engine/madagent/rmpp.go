// SPDX-License-Identifier: Apache-2.0

package madagent

import (
	"github.com/ramjet-rdma/ramjet/internal/base/clock"
	"github.com/ramjet-rdma/ramjet/verbs/umad"
	"github.com/ramjet-rdma/ramjet/wire/mad"
	"github.com/ramjet-rdma/ramjet/wire/mad/sa"
)

const (
	// maxResponse limits a response in bytes: a table of 64,000 ports needs less.
	maxResponse = 16 << 20
	// window is how many segments the sender may send without an acknowledgement, after the first one.
	window = 64
	// assemblyTimeout is the least time in nanoseconds to wait for the next segment.
	assemblyTimeout = clock.Time(10e9)
)

// assembly is a partially received response (section 13.6.3.2).
type assembly struct {
	data  []byte // with the headers of the first segment
	last  uint32 // the last segment received in order
	limit uint32 // NewWindowLast: the last that may be sent
}

// headersLen returns the length of the headers that each segment of a class repeats; 0: the class has no RMPP header.
// Vendor classes of the second range have an OUI after it (section 16.5).
func headersLen(c mad.Class) int {
	switch {
	case c == sa.Class:
		return sa.HeaderLen
	case c >= 0x30 && c <= 0x4f:
		return mad.HeaderLen + sa.RMPPLen + 4
	}
	return 0
}

// segment handles a datagram that may be a segment of a request's response. used reports whether it was one, done
// whether the response is complete.
func (a *Agent) segment(now clock.Time, q *request, from *umad.Path, b []byte) (used, done bool) {
	headers := headersLen(q.class)
	var r sa.RMPP
	if headers == 0 {
		return false, false
	}
	if r.Decode(b[mad.HeaderLen:]); r.Flags&sa.RMPPActive == 0 {
		return false, false
	}
	switch {
	case r.Type == sa.RMPPStop || r.Type == sa.RMPPAbort:
		q.retries, q.deadline = 0, now // fails the request
		return true, false
	case r.Type != sa.RMPPData:
		return true, false
	case r.Version != sa.RMPPVersion:
		a.sendControl(from, b, sa.RMPP{Type: sa.RMPPAbort, Status: sa.RMPPBadVersion})
		return true, false
	}
	if q.response == nil {
		q.response = &assembly{limit: 1} // until the first acknowledgement (section 13.6.2.2)
	}
	p := q.response
	if r.Segment != p.last+1 || (r.Segment == 1) != (r.Flags&sa.RMPPFirst != 0) {
		a.sendControl(from, b, sa.RMPP{Type: sa.RMPPAck, Segment: p.last, Length: p.limit})
		return true, false
	}
	part := b[headers:]
	last := r.Flags&sa.RMPPLast != 0
	if size := int64(r.Length) - int64(headers-mad.HeaderLen-sa.RMPPLen); last && size >= 0 && size < int64(len(part)) {
		part = part[:size]
	}
	if r.Segment == 1 {
		p.data = append(p.data, b[:headers]...)
	}
	if len(p.data)+len(part) > maxResponse {
		a.sendControl(from, b, sa.RMPP{Type: sa.RMPPStop, Status: sa.RMPPExhausted})
		q.retries, q.deadline = 0, now
		return true, false
	}
	p.data = append(p.data, part...)
	p.last = r.Segment
	q.deadline = now + max(q.timeout, assemblyTimeout)
	if last || p.last == p.limit {
		p.limit = p.last + window
		a.sendControl(from, b, sa.RMPP{Type: sa.RMPPAck, Segment: p.last, Length: p.limit})
	}
	if last {
		a.completed.add(completion{q.tid, q.class, p.last})
	}
	return true, last
}

// completion is a response in segments that was received.
type completion struct {
	tid   uint64
	class mad.Class
	last  uint32 // segment
}

// completed has the latest completions: if the acknowledgement of the last segment is lost, the sender repeats the
// segment until it gets another (section 13.6.3.2).
type completed struct {
	ring [16]completion
	next int
}

func (c *completed) add(d completion) {
	c.ring[c.next] = d
	c.next = (c.next + 1) % len(c.ring)
}

// acknowledgeAgain handles a response without a request: it may be the last segment of a response that was received.
func (a *Agent) acknowledgeAgain(h *mad.Header, from *umad.Path, b []byte) {
	var r sa.RMPP
	if !a.RMPP || headersLen(h.Class) == 0 {
		return
	}
	if r.Decode(b[mad.HeaderLen:]); r.Flags&sa.RMPPActive == 0 || r.Type != sa.RMPPData {
		return
	}
	for _, c := range a.completed.ring {
		if c.tid == h.TID && c.class == h.Class {
			a.sendControl(from, b, sa.RMPP{Type: sa.RMPPAck, Segment: c.last, Length: c.last + window})
		}
	}
}

// sendControl answers a segment with an ACK, STOP or ABORT, which has the segment's headers but for method and RMPP.
func (a *Agent) sendControl(from *umad.Path, b []byte, r sa.RMPP) {
	const response = 0x80
	d := Datagram{To: *from}
	var h mad.Header
	h.Decode(b)
	copy(d.MAD[:], b[:headersLen(h.Class)])
	h.Method &^= response
	h.Append(d.MAD[:0])
	r.Version, r.RespTime, r.Flags = sa.RMPPVersion, 31, sa.RMPPActive
	r.Append(d.MAD[:mad.HeaderLen])
	a.out = append(a.out, d)
}
