// SPDX-License-Identifier: Apache-2.0

package fabric

import (
	crand "crypto/rand"
	"encoding/binary"
	"slices"

	"github.com/ramjet-rdma/ramjet/internal/core/clock"
	"github.com/ramjet-rdma/ramjet/internal/engine/link"
	"github.com/ramjet-rdma/ramjet/internal/engine/node"
	"github.com/ramjet-rdma/ramjet/wire/ib"
	"github.com/ramjet-rdma/ramjet/wire/mad"
	"github.com/ramjet-rdma/ramjet/wire/mad/sa"
)

// leaveRequest takes a port out of a group in the name of programs that cannot ask for that any more. It is
// repeated until it is answered, but not for ever: a port whose link is down the administrator forgets anyway.
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
	// maxLeaves limits the requests that wait for an answer: programs that end with more leave ports in groups.
	maxLeaves = 4 * maxGroups
)

// leaves are the requests under way.
type leaves struct {
	requests []leaveRequest
	due      clock.Time // of the first; 0: there is none
	lastTID  uint64     // the first is random
}

func (l *leaves) init() {
	var b [8]byte
	crand.Read(b[:])
	l.lastTID = binary.NativeEndian.Uint64(b[:])
}

// leaveGroup takes a port out of a group, as far as no attachment there is a member.
func (f *Fabric) leaveGroup(m *member, k groupKey, g *group, what sa.JoinState) {
	what &^= g.joinedExcept(noSlot)
	m.noteLeave(k, g, what)
	l := &f.leaves
	for what != 0 && len(l.requests) < maxLeaves {
		one := what & -what // each for itself: a request is refused as a whole if one of its states is not there
		what &^= one
		l.lastTID++
		l.requests = append(l.requests, leaveRequest{m: m, groupKey: k, state: one, tid: l.lastTID, due: f.now()})
		l.due = 1
	}
}

// leaveAll leaves the groups of an attachment that ends.
func (s *Attachment) leaveAll() {
	for k, g := range s.m.groups {
		if was := g.joined[s.slot]; was != 0 {
			s.removeMembership(k, was)
			s.f.leaveGroup(s.m, k, g, was)
		}
	}
	for i := range s.m.pendingJoins {
		if j := &s.m.pendingJoins[i]; j.slot == s.slot {
			j.state, j.added = 0, 0 // of a group that the administrator chooses
		}
	}
}

// cancel keeps requests from being repeated when an attachment has joined again.
func (l *leaves) cancel(m *member, k groupKey, state sa.JoinState) {
	for i := range l.requests {
		if r := &l.requests[i]; r.m == m && r.groupKey == k {
			r.state &^= state
		}
	}
	l.requests = slices.DeleteFunc(l.requests, func(r leaveRequest) bool { return r.state == 0 })
}

// complete ends a request, false: there is none with that id.
func (l *leaves) complete(tid uint64) bool {
	i := slices.IndexFunc(l.requests, func(r leaveRequest) bool { return r.tid == tid })
	if i >= 0 {
		l.requests = slices.Delete(l.requests, i, i+1)
	}
	return i >= 0
}

// sendLeaves sends the requests that are due.
func (f *Fabric) sendLeaves(now clock.Time) {
	l := &f.leaves
	if l.due == 0 || l.due > now {
		return
	}
	l.requests = slices.DeleteFunc(l.requests, func(r leaveRequest) bool { return r.due <= now && r.tries == maxLeaveTries })
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

// send sends the request. What finds no room is repeated, as what is lost.
func (r *leaveRequest) send(f *Fabric, now clock.Time) {
	p := &r.m.state.Ports[r.port]
	to := link.Datagram{SLID: p.Address.LID, DLID: p.Address.SMLID, SL: p.Address.SMSL, Source: ib.QP1, Dest: ib.QP1, QKey: ib.QKeyGSI,
		PKey: ownPKey(p, ib.DefaultPKey)}
	h := sa.NewHeader(sa.MethodDelete, sa.AttrMCMemberRecord, r.tid, sa.MemberMGID|sa.MemberPortGID|sa.MemberJoinState)
	q := sa.MCMemberRecord{MGID: r.mgid, PortGID: gidOf(p.Address.Prefix, p.GUID), Join: r.state}
	h.RMPP.Version = sa.RMPPVersion
	var b [mad.Size]byte
	q.Append(h.Append(b[:0]))
	f.net.SendMAD(now, r.m.node.Port(r.port), to, b[:])
}

// ownPKey returns a port's key of a partition: it may be a full or a limited member.
func ownPKey(p *node.Port, k ib.PKey) ib.PKey {
	for _, own := range p.Partition.PKeys {
		if own&0x7fff == k&0x7fff {
			return own
		}
	}
	return k
}
