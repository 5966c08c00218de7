// SPDX-License-Identifier: Apache-2.0

package madagent

import (
	"github.com/ramjet-rdma/ramjet/internal/core/clock"
	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/wire/mad"
	"github.com/ramjet-rdma/ramjet/wire/mad/sa"
)

const (
	// maxResponse limits a response in bytes: a table of 64,000 ports needs less.
	maxResponse = 16 << 20
	// window is how many segments may be sent without an acknowledgement, after the first.
	window = 64
	// segmentTimeout is how long the next segment may take.
	segmentTimeout = clock.Time(10e9)
)

// assembly is a response of which segments have come (section 13.6.3.2).
type assembly struct {
	data  []byte // with the headers of the first segment
	last  uint32 // the last segment that came in order
	limit uint32 // NewWindowLast: the last that may be sent
}

// headersLen returns the length of the headers that each segment of a class repeats, 0: the class has no
// RMPP header. Vendors' classes of the second range have a vendor's id behind it (section 16.5).
func headersLen(c mad.Class) int {
	switch {
	case c == sa.Class:
		return sa.HeaderLen
	case c >= 0x30 && c <= 0x4f:
		return mad.HeaderLen + sa.RMPPLen + 4
	}
	return 0
}

// segment takes a datagram that may be a segment of the response to a request. used: it is one. done: the
// response is complete.
func (a *Agent) segment(now clock.Time, q *request, from *verbs.MADPath, b []byte) (used, done bool) {
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
		q.retries, q.deadline = 0, now // the program learns that there will be no response
		return true, false
	case r.Type != sa.RMPPData:
		return true, false
	case r.Version != sa.RMPPVersion:
		a.tell(q, from, b, sa.RMPP{Type: sa.RMPPAbort, Status: sa.RMPPBadVersion})
		return true, false
	}
	if q.response == nil {
		q.response = &assembly{limit: 1} // until the first acknowledgement (section 13.6.2.2)
	}
	p := q.response
	if r.Segment != p.last+1 || (r.Segment == 1) != (r.Flags&sa.RMPPFirst != 0) {
		a.tell(q, from, b, sa.RMPP{Type: sa.RMPPAck, Segment: p.last, Length: p.limit})
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
		a.tell(q, from, b, sa.RMPP{Type: sa.RMPPStop, Status: sa.RMPPExhausted})
		q.retries, q.deadline = 0, now
		return true, false
	}
	p.data = append(p.data, part...)
	p.last = r.Segment
	q.deadline = now + max(q.timeout, segmentTimeout)
	if last || p.last == p.limit {
		p.limit = p.last + window
		a.tell(q, from, b, sa.RMPP{Type: sa.RMPPAck, Segment: p.last, Length: p.limit})
	}
	return true, last
}

// tell answers a segment: with its own headers, but for the method and RMPP.
func (a *Agent) tell(q *request, from *verbs.MADPath, b []byte, r sa.RMPP) {
	const response = 0x80
	d := Datagram{To: *from}
	headers := headersLen(q.class)
	copy(d.MAD[:], b[:headers])
	var h mad.Header
	h.Decode(b)
	h.Method &^= response
	h.Append(d.MAD[:0])
	r.Version, r.RespTime, r.Flags = sa.RMPPVersion, 31, sa.RMPPActive
	r.Append(d.MAD[:mad.HeaderLen])
	a.out = append(a.out, d)
}
