// SPDX-License-Identifier: Apache-2.0

package fabric

import (
	"slices"

	"github.com/ramjet-rdma/ramjet/internal/engine/link"
	"github.com/ramjet-rdma/ramjet/wire/ib"
	"github.com/ramjet-rdma/ramjet/wire/mad"
	"github.com/ramjet-rdma/ramjet/wire/mad/sa"
)

// The subnet administrator knows memberships of ports, not of programs (section 15.2.5.17). Programs that share
// an adapter join and leave independently, and the first to leave must not take the port out of the others'
// group. On hardware the kernel keeps count. Here the fabric does, by the requests to the administrator that
// leave the port, so that all agree on their order.
//
//   - A program holds the states that it joins until it leaves, its request is refused, or it ends.
//   - A request to leave is answered here if other programs hold all of its states. Otherwise it goes to the
//     administrator without the states that others hold.
//   - The fabric leaves for a program that has ended: see leaveRequest.
//
// A program keeps its memberships when the subnet manager changes. The new administrator may not know them; the
// program then joins again.

// groupKey is a multicast group at a port of an adapter.
type groupKey struct {
	port int
	mgid ib.GID
}

// group is the membership of a port in a multicast group, and of the attachments that share it.
type group struct {
	joined  [maxAttachments]sa.JoinState // by slot: joined, or asked for
	granted sa.JoinState                 // the port's, as the administrator has answered
}

// joinedExcept returns the join states of all slots but one.
func (g *group) joinedExcept(but int) (all sa.JoinState) {
	for num, j := range g.joined {
		if num != but {
			all |= j
		}
	}
	return all
}

// noSlot stands for no slot.
const noSlot = -1

// pendingJoin is a join that the administrator has not answered. Its MGID is 0 if the administrator chooses it.
type pendingJoin struct {
	groupKey
	tid   uint64
	slot  int
	state sa.JoinState // requested
	added sa.JoinState // of state, the bits that the attachment did not have before
	// portState is the join state that the port gains if the request is granted: without the bits that later
	// requests leave again.
	portState sa.JoinState
}

const (
	// maxGroups limits the groups that an attachment can join.
	maxGroups = 1024
	// maxPendingJoins limits the unanswered joins of an attachment. Its oldest are forgotten; it keeps the requested
	// states.
	maxPendingJoins = maxGroups
)

// memberRequest is a request to the administrator to change a membership of the sending port.
type memberRequest struct {
	groupKey
	leaves bool
	packet *link.Packet
	head   sa.Header
	record sa.MCMemberRecord
	data   []byte // of the record, in the packet
}

// memberRequest decodes the request in a packet. It returns false if the packet is anything else.
func (s *Attachment) memberRequest(port int, p *link.Packet) (q memberRequest, ok bool) {
	d, b, ok := link.ReadMAD(p)
	if !ok || d.Dest != ib.QP1 || mad.Class(b[1]) != sa.Class {
		return q, false
	}
	q.head.Decode(b)
	q.data = b[sa.HeaderLen:]
	q.record.Decode(q.data)
	q.packet, q.port, q.mgid = p, port, q.record.MGID
	needed := sa.MemberPortGID | sa.MemberJoinState
	switch q.head.Method {
	case mad.MethodSet:
		if q.head.Mask&sa.MemberMGID == 0 {
			q.mgid = ib.GID{}
		}
	case sa.MethodDelete:
		q.leaves, needed = true, needed|sa.MemberMGID
	default:
		return q, false
	}
	ok = q.head.ClassVersion == sa.ClassVersion && q.head.Attribute == sa.AttrMCMemberRecord &&
		q.head.Mask&needed == needed &&
		q.head.RMPP.Flags&sa.RMPPActive == 0 && q.record.Join != 0 && d.DLID == s.m.state.Ports[port].Address.SMLID &&
		slices.Contains(s.Info(port).GIDs, q.record.PortGID)
	return q, ok
}

// changeMembership records a request that is about to be sent. It reports whether it has answered the request
// instead, which is then not sent.
func (s *Attachment) changeMembership(q *memberRequest) (answered bool) {
	if q.leaves {
		return s.leave(q)
	}
	return s.join(q)
}

// join records a join of the attachment.
func (s *Attachment) join(q *memberRequest) (answered bool) {
	m := s.m
	j := pendingJoin{groupKey: q.groupKey, tid: q.head.TID, slot: s.slot, state: q.record.Join,
		portState: q.record.Join}
	if q.mgid != (ib.GID{}) {
		j.added = j.state
		if g := m.groups[q.groupKey]; g != nil {
			j.added &^= g.joined[s.slot]
		}
		if j.added == j.state && s.groups >= maxGroups {
			s.respond(q, sa.StatusNoResources)
			return true
		}
		s.addMembership(q.groupKey, j.state)
		s.f.leaves.cancel(m, q.groupKey, j.state)
	}
	if i := slices.IndexFunc(m.pendingJoins,
		func(o pendingJoin) bool { return o.tid == j.tid && o.slot == j.slot }); i >= 0 {
		j.added |= m.pendingJoins[i].added & j.state
		m.pendingJoins = slices.Delete(m.pendingJoins, i, i+1)
	}
	for i := range m.pendingJoins { // of a repeated request only the last answer counts
		if o := &m.pendingJoins[i]; o.groupKey == j.groupKey && o.slot == j.slot && o.state == j.state &&
			o.mgid != (ib.GID{}) {
			j.added |= o.added
			o.state, o.added = 0, 0
		}
	}
	m.dropOldestJoin(s.slot)
	m.pendingJoins = append(m.pendingJoins, j)
	return false
}

// dropOldestJoin makes room for another unanswered join of a slot.
func (m *member) dropOldestJoin(slot int) {
	own, oldest := 0, 0
	for i := len(m.pendingJoins) - 1; i >= 0; i-- {
		if m.pendingJoins[i].slot == slot {
			own, oldest = own+1, i
		}
	}
	if own >= maxPendingJoins {
		m.pendingJoins = slices.Delete(m.pendingJoins, oldest, oldest+1)
	}
}

// leave ends a membership of the attachment, and removes from the request the states that others hold.
func (s *Attachment) leave(q *memberRequest) (answered bool) {
	g := s.m.groups[q.groupKey]
	if g == nil {
		return false
	}
	what, others := q.record.Join, g.joinedExcept(s.slot)
	if what&^g.joined[s.slot] != 0 {
		if what&g.joinedExcept(noSlot) == 0 {
			return false
		}
		s.respond(q, sa.StatusInvalid) // as the administrator answers for a port that is no member
		return true
	}
	s.removeMembership(q.groupKey, what)
	rest := what &^ others
	s.m.noteLeave(q.groupKey, g, rest)
	switch rest {
	case what:
		return false
	case 0:
		q.record.Join = g.joinedExcept(noSlot)
		s.respond(q, mad.StatusOK)
		return true
	}
	q.record.Join = rest
	q.record.Append(q.data[:0])
	q.packet.NoICRC = true // the packet has changed
	return false
}

// noteLeave records that a request to leave a group is being sent.
func (m *member) noteLeave(k groupKey, g *group, what sa.JoinState) {
	g.granted &^= what
	for i := range m.pendingJoins {
		if m.pendingJoins[i].groupKey == k {
			m.pendingJoins[i].portState &^= what
		}
	}
}

// respond turns a request into its response, and gives it to the attachment.
func (s *Attachment) respond(q *memberRequest, status mad.Status) {
	h := &q.head
	if h.Status = status; status == mad.StatusOK {
		q.record.Append(q.data[:0])
	} else {
		clear(q.data)
	}
	if h.Method = mad.MethodGetResp; q.leaves {
		h.Method = sa.MethodDeleteResp
	}
	h.Offset, h.SMKey, h.RMPP = 0, 0, sa.RMPP{}
	_, b, _ := link.ReadMAD(q.packet)
	h.Append(b[:0])
	q.packet.Reverse()
	s.enqueueOwn(q.port, q.packet)
}

// addMembership adds join states of the attachment.
func (s *Attachment) addMembership(k groupKey, j sa.JoinState) *group {
	g := s.m.groups[k]
	if g == nil {
		g = new(group)
		s.m.groups[k] = g
	}
	if g.joined[s.slot] == 0 {
		s.groups++
	}
	g.joined[s.slot] |= j
	return g
}

// removeMembership removes join states of the attachment, also from its pending joins.
func (s *Attachment) removeMembership(k groupKey, what sa.JoinState) *group {
	for i := range s.m.pendingJoins {
		if j := &s.m.pendingJoins[i]; j.groupKey == k && j.slot == s.slot {
			j.state &^= what
			j.added &^= what
		}
	}
	g := s.m.groups[k]
	if g.joined[s.slot] &^= what; g.joined[s.slot] == 0 {
		s.groups--
		if g.joinedExcept(noSlot) == 0 {
			delete(s.m.groups, k)
		}
	}
	return g
}

// observeResponse updates memberships from a response of the administrator. It reports whether the response is to a
// request of the fabric itself.
func (m *member) observeResponse(f *Fabric, p *link.Packet) (own bool) {
	_, b, ok := link.ReadMAD(p)
	if !ok || mad.Class(b[1]) != sa.Class {
		return false
	}
	var h sa.Header
	h.Decode(b)
	switch {
	case h.Method == sa.MethodDeleteResp:
		return f.leaves.complete(h.TID)
	case h.Method == mad.MethodGetResp && h.Attribute == sa.AttrMCMemberRecord:
		m.handleJoinResponse(f, &h, b[sa.HeaderLen:])
	}
	return false
}

// handleJoinResponse grants or revokes the states that a join has requested. The port leaves states that no
// attachment holds any more.
func (m *member) handleJoinResponse(f *Fabric, h *sa.Header, data []byte) {
	i := slices.IndexFunc(m.pendingJoins, func(j pendingJoin) bool { return j.tid == h.TID })
	if i < 0 {
		return
	}
	j := m.pendingJoins[i]
	m.pendingJoins = slices.Delete(m.pendingJoins, i, i+1)
	if h.Status == mad.StatusOK && j.mgid == (ib.GID{}) {
		var r sa.MCMemberRecord
		r.Decode(data)
		j.mgid = r.MGID
	}
	g := m.groups[j.groupKey]
	if g == nil {
		g = new(group)
	}
	granted := h.Status == mad.StatusOK
	for o := range m.pendingJoins {
		o := &m.pendingJoins[o]
		if o.groupKey != j.groupKey || o.slot != j.slot {
			continue
		}
		if granted {
			o.added &^= j.state
		} else { // a repeated request decides about its states
			o.added |= j.added & o.state
			j.added &^= o.state
		}
	}
	s := m.attachments[j.slot]
	if granted && j.state != 0 {
		g = s.addMembership(j.groupKey, j.state)
	}
	if granted {
		g.granted |= j.portState
	} else if j.added != 0 {
		s.removeMembership(j.groupKey, j.added)
	}
	f.leaveGroup(m, j.groupKey, g, g.granted)
}
