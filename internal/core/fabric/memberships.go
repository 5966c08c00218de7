// SPDX-License-Identifier: Apache-2.0

package fabric

import (
	"slices"

	"github.com/ramjet-rdma/ramjet/internal/core/steer"
	"github.com/ramjet-rdma/ramjet/internal/engine/link"
	"github.com/ramjet-rdma/ramjet/wire/ib"
	"github.com/ramjet-rdma/ramjet/wire/mad"
	"github.com/ramjet-rdma/ramjet/wire/mad/sa"
)

// To the subnet administrator a port is a member of a multicast group or is not (section 15.2.5.17). Programs
// that share an adapter join and leave by themselves, and the first one to leave must not take the port out of
// the others' group. On hardware the driver of the adapter sees to that. Here the fabric does: it looks at
// what programs ask the administrator at the moment when that leaves the port, so that all are agreed on the
// order.
//
//   - What a program joins is its own until it leaves, its request is refused, or it ends.
//   - A request to leave is answered here if other programs hold all that is to be left; otherwise the
//     administrator gets it, without what others hold.
//   - What a program that has ended was a member of is left in its place: see leaveRequest.
//
// A program holds its memberships over a change of the subnet manager too. Then the administrator may have
// forgotten them, and the program joins again.

// groupKey names a multicast group at a port of an adapter.
type groupKey struct {
	port int
	mgid ib.GID
}

// group is what the programs at a port are in a multicast group.
type group struct {
	joined  [maxSeats]sa.JoinState // by seat: what it has joined, or has asked to
	granted sa.JoinState           // what the administrator has made the port
}

// held returns what seats are, but for one.
func (g *group) held(but int) (all sa.JoinState) {
	for num, j := range g.joined {
		if num != but {
			all |= j
		}
	}
	return all
}

// nobody is the number of no seat.
const nobody = -1

// joins are what a seat has asked for and is in.
type joins struct {
	asked  []join // without an answer, in their order
	groups int    // that it is in
}

// join is a request that the administrator has not answered. Its MGID is 0 if the administrator chooses one.
type join struct {
	groupKey
	tid   uint64
	state sa.JoinState
	fresh sa.JoinState // what the seat was not before
}

// maxGroups limits the groups that a seat is in, and the requests that it has under way.
const maxGroups = 1024

// memberRequest is a request to the administrator to change a membership of the port that it leaves.
type memberRequest struct {
	groupKey
	leaves bool
	packet *link.Packet
	head   sa.Header
	record sa.MCMemberRecord
	data   []byte // where the record is in the packet
}

// memberRequest returns the one in a packet, false: it is something else.
func (s *Seat) memberRequest(port int, p *link.Packet) (q memberRequest, ok bool) {
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
	ok = q.head.ClassVersion == sa.ClassVersion && q.head.Attribute == sa.AttrMCMemberRecord && q.head.Mask&needed == needed &&
		q.head.RMPP.Flags&sa.RMPPActive == 0 && q.record.Join != 0 && d.DLID == s.m.state.Ports[port].Address.SMLID &&
		slices.Contains(s.Info(port).GIDs, q.record.PortGID)
	return q, ok
}

// changeMembership takes note of a request that is about to leave, and reports whether it has been answered
// instead.
func (s *Seat) changeMembership(q *memberRequest) (answered bool) {
	if q.leaves {
		return s.leave(q)
	}
	return s.join(q)
}

// join notes that the seat wants to be a member.
func (s *Seat) join(q *memberRequest) (answered bool) {
	j := join{groupKey: q.groupKey, tid: q.head.TID, state: q.record.Join, fresh: q.record.Join}
	if q.mgid != (ib.GID{}) {
		if g := s.m.groups[q.groupKey]; g != nil {
			j.fresh &^= g.joined[s.num]
		}
		if j.fresh == j.state && s.groups >= maxGroups {
			s.answer(q, sa.StatusNoResources)
			return true
		}
		s.hold(q.groupKey, j.state)
		s.f.leaves.rejoined(s.m, q.groupKey, j.state)
	}
	s.asked = slices.DeleteFunc(s.asked, func(o join) bool {
		again := o.tid == j.tid || o.groupKey == j.groupKey && o.state == j.state && o.mgid != (ib.GID{})
		if again {
			j.fresh |= o.fresh
		}
		return again
	})
	if len(s.asked) == maxGroups { // the oldest is given up, and what it has joined is kept
		s.asked = slices.Delete(s.asked, 0, 1)
	}
	s.asked = append(s.asked, j)
	return false
}

// leave ends what the seat is, and leaves of the request what no other seat is.
func (s *Seat) leave(q *memberRequest) (answered bool) {
	g := s.m.groups[q.groupKey]
	if g == nil {
		return false
	}
	what, others := q.record.Join, g.held(s.num)
	if what&others != 0 && what&^g.joined[s.num] != 0 {
		s.answer(q, sa.StatusInvalid) // as the administrator says of what a port is not
		return true
	}
	for i := range s.asked {
		if j := &s.asked[i]; j.groupKey == q.groupKey {
			j.state &^= what
			j.fresh &^= what
		}
	}
	s.asked = slices.DeleteFunc(s.asked, func(j join) bool { return j.state == 0 })
	s.drop(q.groupKey, what)
	rest := what &^ others
	g.granted &^= rest
	switch rest {
	case what:
		return false
	case 0:
		q.record.Join = g.held(nobody)
		s.answer(q, mad.StatusOK)
		return true
	}
	q.record.Join = rest
	q.record.Append(q.data[:0])
	q.packet.NoICRC = true // it is another one now
	return false
}

// answer turns a request into its response, which the seat receives.
func (s *Seat) answer(q *memberRequest, status mad.Status) {
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
	s.put(q.port, q.packet)
}

// hold makes the seat a member.
func (s *Seat) hold(k groupKey, j sa.JoinState) {
	g := s.m.groups[k]
	if g == nil {
		g = new(group)
		s.m.groups[k] = g
	}
	if g.joined[s.num] == 0 {
		s.groups++
	}
	g.joined[s.num] |= j
}

// drop makes the seat a member no more, and returns the group.
func (s *Seat) drop(k groupKey, j sa.JoinState) *group {
	g := s.m.groups[k]
	if g.joined[s.num] &^= j; g.joined[s.num] == 0 {
		s.groups--
		if g.held(nobody) == 0 {
			delete(s.m.groups, k)
		}
	}
	return g
}

// heard takes note of what the administrator answers, and reports whether the fabric itself has asked.
func (m *member) heard(f *Fabric, p *link.Packet) (own bool) {
	_, b, ok := link.ReadMAD(p)
	if !ok || mad.Class(b[1]) != sa.Class {
		return false
	}
	var h sa.Header
	h.Decode(b)
	if h.Method == sa.MethodDeleteResp {
		return f.leaves.answered(h.TID)
	}
	s := m.seats[steer.SlotOf(uint32(h.TID>>32))]
	if h.Method == mad.MethodGetResp && h.Attribute == sa.AttrMCMemberRecord && s != nil {
		s.joinAnswered(&h, b[sa.HeaderLen:])
	}
	return false
}

// joinAnswered takes note of what becomes of a request to join.
func (s *Seat) joinAnswered(h *sa.Header, data []byte) {
	i := slices.IndexFunc(s.asked, func(j join) bool { return j.tid == h.TID })
	if i < 0 {
		return
	}
	j := s.asked[i]
	s.asked = slices.Delete(s.asked, i, i+1)
	if h.Status != mad.StatusOK {
		if j.mgid != (ib.GID{}) && j.fresh != 0 {
			g := s.drop(j.groupKey, j.fresh)
			s.f.leaveGroup(s.m, j.groupKey, g, g.granted&j.fresh)
		}
		return
	}
	if j.mgid == (ib.GID{}) {
		var r sa.MCMemberRecord
		r.Decode(data)
		j.mgid = r.MGID
	}
	for o := range s.asked {
		if s.asked[o].groupKey == j.groupKey {
			s.asked[o].fresh &^= j.state
		}
	}
	s.hold(j.groupKey, j.state)
	s.m.groups[j.groupKey].granted |= j.state
}
