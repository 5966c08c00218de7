// SPDX-License-Identifier: Apache-2.0

package sm

import (
	"slices"

	"github.com/ramjet-rdma/ramjet/internal/base/clock"
	"github.com/ramjet-rdma/ramjet/wire/ib"
	"github.com/ramjet-rdma/ramjet/wire/mad"
	"github.com/ramjet-rdma/ramjet/wire/mad/sa"
)

// transfer is a table that is being sent to a requester in segments (section 13.6.3).
type transfer struct {
	header   sa.Header
	to       Datagram // its addresses
	data     []byte
	segments uint32
	sent     uint32     // the last segment sent
	acked    uint32     // the last segment acknowledged
	window   uint32     // the last segment that may be sent
	tries    int        // how often the segments after acked were sent
	deadline clock.Time // when they are repeated; 0: segments can be sent now
}

// Bounds of a transfer.
const (
	transferTimeout = clock.Time(1e9)
	transferTries   = 5
)

// send starts to send a table. A repeated request is ignored while its response is being sent.
func (a *admin) send(m *Manager, q *query, data []byte, stride int) {
	mine := 0
	for _, t := range a.transfers {
		if t.to.LID != q.d.LID {
			continue
		}
		if t.matches(q) {
			return
		}
		mine++
	}
	l := &m.config.Limits
	if mine >= perRequester || len(a.transfers) >= l.Responses || a.bytes+len(data) > perRequester*l.ResponseBytes {
		m.refuse(q, mad.StatusBusy)
		return
	}
	t := &transfer{data: data, window: 1, tries: 1}
	t.header, t.to = response(q, mad.StatusOK)
	t.header.Offset = uint16(stride / 8)
	t.segments = uint32(max(1, (len(data)+sa.DataLen-1)/sa.DataLen))
	a.transfers = append(a.transfers, t)
	a.bytes += len(data)
}

func (t *transfer) matches(q *query) bool {
	return t.to.LID == q.d.LID && t.to.Peer == q.d.Peer && t.header.TID == q.TID
}

// nextSegment returns the next segment within a window in d, of each transfer in turn.
func (a *admin) nextSegment(now clock.Time, d *Datagram) bool {
	for i, t := range a.transfers {
		if t.deadline != 0 {
			continue
		}
		if t.sent >= min(t.window, t.segments) {
			t.deadline = now + transferTimeout
			continue
		}
		t.sent++
		t.segment(t.sent, d)
		if t.sent == min(t.window, t.segments) {
			t.deadline = now + transferTimeout
		}
		copy(a.transfers[i:], a.transfers[i+1:])
		a.transfers[len(a.transfers)-1] = t
		return true
	}
	return false
}

// segment encodes segment n, from 1 on.
func (t *transfer) segment(n uint32, d *Datagram) {
	at := int(n-1) * sa.DataLen
	part := t.data[at:min(len(t.data), at+sa.DataLen)]
	h := t.header
	h.RMPP = sa.RMPP{Version: sa.RMPPVersion, Type: sa.RMPPData, RespTime: 31, Flags: sa.RMPPActive, Segment: n}
	if n == 1 {
		h.RMPP.Flags |= sa.RMPPFirst
		h.RMPP.Length = uint32(len(t.data)) + t.segments*sa.SubHeaderLen
	}
	if n == t.segments {
		h.RMPP.Flags |= sa.RMPPLast
		h.RMPP.Length = uint32(len(part)) + sa.SubHeaderLen
	}
	*d = t.to
	h.Append(d.MAD[:0])
	copy(d.MAD[sa.HeaderLen:], part)
}

// handleRMPP handles an ACK, STOP or ABORT of the receiver of a table (section 13.6.3.1). Others cannot stop a
// transfer, as their LID or queue pair differs.
func (a *admin) handleRMPP(m *Manager, now clock.Time, q *query) {
	i := slices.IndexFunc(a.transfers, func(t *transfer) bool { return t.matches(q) })
	if i < 0 {
		return
	}
	t := a.transfers[i]
	r := &q.RMPP
	switch {
	case r.Type != sa.RMPPAck: // STOP, ABORT, or undefined
		a.end(i)
	case r.Version != sa.RMPPVersion:
		a.abort(m, i, sa.RMPPBadVersion)
	case r.Segment > t.segments || r.Segment > max(t.sent, t.acked):
		a.abort(m, i, sa.RMPPSegmentTooBig)
	case r.Length < r.Segment:
		a.abort(m, i, sa.RMPPWindowTooSmall)
	case r.Segment < t.acked: // out of date
	case r.Segment == t.segments:
		a.end(i)
	default:
		if r.Segment > t.acked {
			t.acked, t.tries = r.Segment, 1
		}
		t.window = max(t.window, r.Length)
		if t.sent < min(t.window, t.segments) {
			t.deadline = 0
		}
	}
}

// end removes a transfer.
func (a *admin) end(i int) {
	a.bytes -= len(a.transfers[i].data)
	a.transfers = slices.Delete(a.transfers, i, i+1)
}

// abort ends a transfer, and sends the receiver an ABORT.
func (a *admin) abort(m *Manager, i int, status uint8) {
	t := a.transfers[i]
	h, d := t.header, t.to
	h.RMPP = sa.RMPP{Version: sa.RMPPVersion, Type: sa.RMPPAbort, RespTime: 31, Flags: sa.RMPPActive, Status: status}
	h.Append(d.MAD[:0])
	m.reply(&d)
	a.end(i)
}

// expireTransfers repeats segments that were not acknowledged in time, and aborts after transferTries.
func (a *admin) expireTransfers(m *Manager, now clock.Time) {
	for i := len(a.transfers) - 1; i >= 0; i-- {
		t := a.transfers[i]
		if t.deadline == 0 || now < t.deadline {
			continue
		}
		if t.tries >= transferTries {
			a.abort(m, i, sa.RMPPTooManyRetries)
			continue
		}
		t.tries++
		t.sent, t.deadline = t.acked, 0
	}
}

// outReport is a Report that a subscriber has not answered yet (section 14.3.11).
type outReport struct {
	d        Datagram
	tid      uint64
	tries    int
	deadline clock.Time // when it is repeated; 0: it is to be sent now
}

// reportTries is how often a report is sent to a subscriber that does not answer.
const reportTries = 4

func (a *admin) nextReport(now clock.Time, d *Datagram) bool {
	for _, r := range a.reports {
		if r.deadline == 0 {
			r.tries++
			r.deadline = now + transferTimeout
			*d = r.d
			return true
		}
	}
	return false
}

// handleReportResp handles a subscriber's ReportResp.
func (a *admin) handleReportResp(q *query) {
	a.reports = slices.DeleteFunc(a.reports, func(r *outReport) bool {
		return r.tid == q.TID && r.d.LID == q.d.LID && r.d.Peer == q.d.Peer
	})
}

func (a *admin) expireReports(now clock.Time) {
	a.reports = slices.DeleteFunc(a.reports, func(r *outReport) bool {
		if r.deadline == 0 || now < r.deadline {
			return false
		}
		r.deadline = 0
		return r.tries >= reportTries
	})
}

// queueReport queues a Report of a notice to a subscriber.
func (a *admin) queueReport(m *Manager, s *subscription, n *mad.Notice, issuer ib.GID) {
	if len(a.reports) >= m.config.Limits.Replies {
		m.Counters.Discarded++
		return
	}
	a.tid++
	tid := uint64(m.config.TIDBase)<<32 | uint64(a.tid)
	h := sa.NewHeader(mad.MethodReport, mad.AttrNotice, tid, 0)
	r := &outReport{tid: tid, d: Datagram{QPN: ib.QP1, LID: s.lid, Peer: s.qpn, SL: s.sl, PKey: s.pkey}}
	h.Append(r.d.MAD[:0])
	copy(r.d.MAD[sa.HeaderLen+mad.NoticeLen:], issuer[:])
	n.Append(r.d.MAD[sa.HeaderLen:sa.HeaderLen])
	a.reports = append(a.reports, r)
	m.Counters.Reports++
}
