// SPDX-License-Identifier: Apache-2.0

package fabric

import (
	crand "crypto/rand"
	"encoding/binary"
	"slices"

	"github.com/ramjet-rdma/ramjet/internal/base/clock"
	"github.com/ramjet-rdma/ramjet/internal/engine/link"
	"github.com/ramjet-rdma/ramjet/internal/engine/node"
	"github.com/ramjet-rdma/ramjet/wire/ib"
	"github.com/ramjet-rdma/ramjet/wire/mad"
	"github.com/ramjet-rdma/ramjet/wire/mad/sa"
)

// leaveRequest leaves a group on behalf of a program that has ended. It is repeated until it is answered, up to
// maxLeaveTries times: the administrator forgets a port whose link is down anyway.
type leaveRequest struct {
	m *member
	groupKey
	state sa.JoinState
	tid   uint64
	tries int
	due   clock.Time
}

const (
	maxLeaveTries = 5
	leaveInterval = clock.Time(1e9)
	// maxLeaves limits the unanswered requests of an adapter. Memberships beyond it stay with the port.
	maxLeaves = 4 * maxGroups
)

// leaves are the requests that are not answered yet.
type leaves struct {
	requests []leaveRequest
	due      clock.Time // of the earliest; 0: there is none
	lastTID  uint64     // starts at random
}

func (l *leaves) init() {
	var b [8]byte
	crand.Read(b[:])
	l.lastTID = binary.NativeEndian.Uint64(b[:])
}

// leaveGroup leaves the join states of a port in a group that no attachment holds.
func (f *Fabric) leaveGroup(m *member, k groupKey, g *group, what sa.JoinState) {
	what &^= g.joinedExcept(noSlot)
	m.noteLeave(k, g, what)
	l := &f.leaves
	for what != 0 && m.leaving < maxLeaves {
		one := what & -what // one request each: the administrator refuses a request if the port lacks one of its states
		what &^= one
		l.lastTID++
		m.leaving++
		l.requests = append(l.requests, leaveRequest{m: m, groupKey: k, state: one, tid: l.lastTID, due: f.now()})
		l.due = 1
	}
}

// leaveAll leaves the groups of an attachment that closes.
func (s *Attachment) leaveAll() {
	for k, g := range s.m.groups {
		if was := g.joined[s.slot]; was != 0 {
			s.removeMembership(k, was)
			s.f.leaveGroup(s.m, k, g, was)
		}
	}
	for i := range s.m.pendingJoins {
		if j := &s.m.pendingJoins[i]; j.slot == s.slot {
			j.state, j.added = 0, 0 // the administrator has yet to choose the MGID
		}
	}
}

// cancel takes back states of pending requests, because an attachment has joined again.
func (l *leaves) cancel(m *member, k groupKey, state sa.JoinState) {
	for i := range l.requests {
		if r := &l.requests[i]; r.m == m && r.groupKey == k {
			r.state &^= state
		}
	}
	l.remove(func(r *leaveRequest) bool { return r.state == 0 })
}

// remove removes requests.
func (l *leaves) remove(which func(r *leaveRequest) bool) {
	l.requests = slices.DeleteFunc(l.requests, func(r leaveRequest) bool {
		gone := which(&r)
		if gone {
			r.m.leaving--
		}
		return gone
	})
}

// complete removes the request with a transaction id. It returns false if there is none.
func (l *leaves) complete(tid uint64) bool {
	before := len(l.requests)
	l.remove(func(r *leaveRequest) bool { return r.tid == tid })
	return len(l.requests) < before
}

// sendLeaves sends the requests that are due.
func (f *Fabric) sendLeaves(now clock.Time) {
	l := &f.leaves
	if l.due == 0 || l.due > now {
		return
	}
	l.remove(func(r *leaveRequest) bool { return r.due <= now && r.tries == maxLeaveTries })
	l.due = 0
	for i := range l.requests {
		r := &l.requests[i]
		if r.due <= now {
			r.tries++
			r.due = now + leaveInterval
			r.send(f, now)
		}
		if l.due == 0 || r.due < l.due {
			l.due = r.due
		}
	}
}

// send sends the request. If the port is full it is lost, and repeated like any other.
func (r *leaveRequest) send(f *Fabric, now clock.Time) {
	p := &r.m.state.Ports[r.port]
	to := link.Datagram{SLID: p.Address.LID, DLID: p.Address.SMLID, SL: p.Address.SMSL, Source: ib.QP1, Dest: ib.QP1,
		QKey: ib.QKeyGSI, PKey: ownPKey(p, ib.DefaultPKey)}
	h := sa.NewHeader(sa.MethodDelete, sa.AttrMCMemberRecord, r.tid, sa.MemberMGID|sa.MemberPortGID|sa.MemberJoinState)
	q := sa.MCMemberRecord{MGID: r.mgid, PortGID: gidOf(p.Address.Prefix, p.GUID), Join: r.state}
	h.RMPP.Version = sa.RMPPVersion
	var b [mad.Size]byte
	q.Append(h.Append(b[:0]))
	f.net.SendMAD(now, r.m.node.Port(r.port), to, b[:])
}

// ownPKey returns a port's own P_Key of the partition of k, which may be a full or a limited member's.
func ownPKey(p *node.Port, k ib.PKey) ib.PKey {
	for _, own := range p.Partition.PKeys {
		if own.Base() == k.Base() {
			return own
		}
	}
	return k
}
