// SPDX-License-Identifier: Apache-2.0

package sm

import (
	"slices"

	"github.com/ramjet-rdma/ramjet/internal/base/clock"
	"github.com/ramjet-rdma/ramjet/wire/ib"
	"github.com/ramjet-rdma/ramjet/wire/mad"
	"github.com/ramjet-rdma/ramjet/wire/mad/sa"
	"github.com/ramjet-rdma/ramjet/wire/mad/smp"
)

// admin is the state of the subnet administrator.
type admin struct {
	groups      map[ib.GID]*group
	byMLID      []*group // from [node.FirstMulticastLID] on
	dirty       map[int]bool
	heldReplies []Datagram // responses to joins, until the switches have their tables
	services    []*service
	subs        []*subscription
	transfers   []*transfer
	bytes       int // of all transfers
	reports     []*outReport
	tid         uint32
}

func (a *admin) init() {
	*a = admin{groups: make(map[ib.GID]*group), dirty: make(map[int]bool), tid: a.tid}
}

// query is a request to the administrator.
type query struct {
	sa.Header
	d       *Datagram
	data    []byte // the attribute
	from    *port  // the requester
	trusted bool   // it has the SM_Key
}

// handleSA answers a request (section 15.4). Only a master does: clients find it by the MasterSMLID of their port.
func (m *Manager) handleSA(now clock.Time, d *Datagram) {
	q := &query{d: d, data: d.MAD[sa.HeaderLen:]}
	q.Decode(d.MAD[:])
	if m.role != smp.SMMaster {
		m.Counters.Discarded++
		return
	}
	known := q.ClassVersion == sa.ClassVersion
	switch {
	case known && q.RMPP.Flags&sa.RMPPActive != 0 && q.RMPP.Type != sa.RMPPData:
		m.admin.handleRMPP(m, now, q)
		return
	case known && q.Method == mad.MethodReportResp:
		m.admin.handleReportResp(q)
		return
	case q.Method.Answers(): // responses are never answered
		m.Counters.Malformed++
		return
	case !known:
		m.refuse(q, mad.StatusUnsupportedVersion)
		return
	}
	m.Counters.Queries++
	if m.fabric == nil {
		m.refuse(q, mad.StatusBusy)
		return
	}
	if q.from = m.fabric.at(d.LID); q.from == nil {
		m.Counters.Discarded++
		return
	}
	if q.trusted = q.SMKey == m.config.SMKey; !q.trusted && q.SMKey != 0 {
		m.refuse(q, sa.StatusDenied)
		return
	}
	m.answer(now, q)
}

// answer carries out a request by its attribute and method.
func (m *Manager) answer(now clock.Time, q *query) {
	get := q.Method == mad.MethodGet || q.Method == sa.MethodGetTable
	switch {
	case q.Attribute == mad.AttrClassPortInfo && q.Method == mad.MethodGet:
		c := mad.ClassPortInfo{BaseVersion: mad.BaseVersion, ClassVersion: sa.ClassVersion,
			CapMask: capOptional | capMulticast, RespTime: respTime}
		m.answerRecord(q, c.Append(nil))
	case q.Attribute == mad.AttrInformInfo && q.Method == mad.MethodSet:
		m.subscribe(q)
	case q.Attribute == sa.AttrMCMemberRecord && q.Method == mad.MethodSet:
		m.join(now, q)
	case q.Attribute == sa.AttrMCMemberRecord && q.Method == sa.MethodDelete:
		m.leave(now, q)
	case q.Attribute == sa.AttrServiceRecord && q.Method == mad.MethodSet:
		m.registerService(now, q)
	case q.Attribute == sa.AttrServiceRecord && q.Method == sa.MethodDelete:
		m.removeService(q)
	case sa.Layout(q.Attribute) != nil && get:
		m.lookUp(now, q)
	case sa.Layout(q.Attribute) != nil:
		m.refuse(q, mad.StatusUnsupportedMethod)
	default:
		m.refuse(q, mad.StatusUnsupportedAttribute)
	}
}

// ClassPortInfo of the administrator (section 15.2.6).
const (
	capOptional  = 1 << 8 // optional records are supported
	capMulticast = 1 << 9 // UD multicast
	respTime     = 18     // code: about 1 s
)

// lookUp answers a Get or GetTable.
func (m *Manager) lookUp(now clock.Time, q *query) {
	layout := sa.Layout(q.Attribute)
	if !layout.Covers(q.Mask) {
		m.refuse(q, sa.StatusInvalid)
		return
	}
	t := table{q: q, layout: layout, mask: q.Mask, limit: m.config.Limits.ResponseBytes}
	if status := m.collect(now, &t); status != mad.StatusOK {
		m.refuse(q, status)
		return
	}
	switch {
	case t.full:
		m.refuse(q, sa.StatusNoResources)
	case q.Method == sa.MethodGetTable:
		m.admin.send(m, q, t.data, layout.Stride())
	case t.n == 0:
		m.refuse(q, sa.StatusNoRecords)
	case t.n > 1:
		m.refuse(q, sa.StatusTooManyRecords)
	default:
		m.answerRecord(q, t.data)
	}
}

// table collects the records that match a query.
type table struct {
	q      *query
	layout *sa.Components
	mask   uint64
	data   []byte
	n      int
	limit  int
	full   bool // the records exceed limit
}

// add adds a record if it matches.
func (t *table) add(r interface{ Append([]byte) []byte }) {
	if t.full {
		return
	}
	was := len(t.data)
	t.data = r.Append(t.data)
	if !t.layout.Match(t.mask, t.q.data, t.data[was:]) {
		t.data = t.data[:was]
		return
	}
	if len(t.data) > t.limit {
		t.full, t.data = true, nil
		return
	}
	for len(t.data)-was < t.layout.Stride() {
		t.data = append(t.data, 0)
	}
	t.n++
}

// skips reports whether no record of a LID can match. The records that it is used for begin with their LID.
func (t *table) skips(lid uint16) bool {
	return t.mask&1 != 0 && uint16(t.q.data[0])<<8|uint16(t.q.data[1]) != lid
}

// response returns the header and the addresses of the response to a request.
func response(q *query, status mad.Status) (sa.Header, Datagram) {
	h := q.Header
	h.Method |= 0x80
	if q.Method == mad.MethodSet {
		h.Method = mad.MethodGetResp
	}
	h.Status, h.SMKey, h.RMPP = status, 0, sa.RMPP{}
	return h, Datagram{QPN: ib.QP1, LID: q.d.LID, Peer: q.d.Peer, SL: q.d.SL, PKey: q.d.PKey}
}

// refuse responds with an error status and no record.
func (m *Manager) refuse(q *query, status mad.Status) {
	h, d := response(q, status)
	h.Offset = 0
	h.Append(d.MAD[:0])
	m.reply(&d)
}

// answerRecord responds with one record.
func (m *Manager) answerRecord(q *query, record []byte) {
	d := answerWith(q, record)
	m.reply(&d)
}

func answerWith(q *query, record []byte) Datagram {
	h, d := response(q, mad.StatusOK)
	h.Offset = 0
	copy(d.MAD[sa.HeaderLen:], record)
	h.Append(d.MAD[:0])
	return d
}

// afterSweep reports new and vanished ports to subscribers, and forgets the registrations of vanished ports.
func (a *admin) afterSweep(m *Manager, now clock.Time, old, f *fabric) {
	if old == nil {
		return
	}
	for lid, p := range f.byLID {
		if p != nil && int(p.lid) == lid && old.byPortGUID[p.guid] == nil {
			a.reportGID(m, now, mad.TrapInService, m.gid(p))
		}
	}
	for lid, p := range old.byLID {
		if p == nil || int(p.lid) != lid || f.byPortGUID[p.guid] != nil {
			continue
		}
		a.forgetPort(m, now, p.guid)
		a.reportGID(m, now, mad.TrapOutOfService, m.gid(p))
	}
}

// forgetPort removes a port's memberships, services and subscriptions.
func (a *admin) forgetPort(m *Manager, now clock.Time, guid uint64) {
	for _, g := range a.sortedGroups() {
		if _, ok := g.members[guid]; ok {
			m.dropMember(now, g, guid)
		}
	}
	a.services = slices.DeleteFunc(a.services, func(s *service) bool { return s.owner == guid })
	a.subs = slices.DeleteFunc(a.subs, func(s *subscription) bool { return s.guid == guid })
}

// timeout handles deadlines that have passed at now.
func (a *admin) timeout(m *Manager, now clock.Time) {
	a.expireServices(now)
	a.expireTransfers(m, now)
	a.expireReports(now)
}

func (a *admin) deadline() clock.Time {
	d := clock.Time(0)
	for _, s := range a.services {
		d = earlier(d, s.ends)
	}
	for _, t := range a.transfers {
		d = earlier(d, t.deadline)
	}
	for _, r := range a.reports {
		d = earlier(d, r.deadline)
	}
	return d
}

// next writes the next segment or report.
func (a *admin) next(now clock.Time, d *Datagram) bool {
	return a.nextSegment(now, d) || a.nextReport(now, d)
}
