// SPDX-License-Identifier: Apache-2.0

package sm

import (
	"bytes"
	"maps"
	"slices"

	"github.com/ramjet-rdma/ramjet/internal/base/clock"
	"github.com/ramjet-rdma/ramjet/internal/engine/node"
	"github.com/ramjet-rdma/ramjet/internal/engine/routing"
	"github.com/ramjet-rdma/ramjet/wire/ib"
	"github.com/ramjet-rdma/ramjet/wire/mad"
	"github.com/ramjet-rdma/ramjet/wire/mad/sa"
	"github.com/ramjet-rdma/ramjet/wire/mad/smp"
)

// group is a multicast group (section 15.2.5.17).
type group struct {
	record    sa.MCMemberRecord // the parameters that all members share
	members   map[uint64]sa.JoinState
	creator   uint64 // a port's GUID
	permanent bool   // it exists without members
}

const (
	receives  = sa.FullMember | sa.NonMember          // join states with which a port receives
	keepAlive = sa.FullMember | sa.SendOnlyFullMember // join states that keep a group alive
)

// Broadcast groups of IP over InfiniBand (RFC 4391, section 4).
const (
	ipoibQKey  ib.QKey = 0x0b1b
	ipoibMTU   uint8   = 4 // 2048 bytes
	ipoibRate  uint8   = 3 // 10 Gb/s
	scopeLocal uint8   = 2
)

// broadcastGID returns the MGID of a partition's broadcast group (RFC 4391, section 4).
func broadcastGID(k ib.PKey) ib.GID {
	k = k.Full()
	return ib.GID{0: 0xff, 1: 0x10 | scopeLocal, 2: 0x40, 3: 0x1b, 4: byte(k >> 8), 5: byte(k), 12: 0xff, 13: 0xff,
		14: 0xff, 15: 0xff}
}

// createBroadcast creates the broadcast groups of IP over InfiniBand, one for each partition that has it.
func (m *Manager) createBroadcast() {
	keys := []ib.PKey{ib.DefaultPKey}
	for i := range m.config.Partitions {
		if p := &m.config.Partitions[i]; p.IPoIB && p.PKey.Base() != defaultPartition {
			keys = append(keys, p.PKey.Full())
		}
	}
	for _, k := range keys {
		g := &group{members: make(map[uint64]sa.JoinState), permanent: true, record: sa.MCMemberRecord{
			MGID: broadcastGID(k), QKey: ipoibQKey, PKey: k, Scope: scopeLocal,
			MTU: exact(ipoibMTU), Rate: exact(ipoibRate), Life: exact(m.config.LifeTime)}}
		m.admin.addGroup(g)
	}
}

func exact(v uint8) sa.Selected { return sa.Selected{Selector: sa.Exactly, Value: v} }

// addGroup adds a group with the lowest free MLID.
func (a *admin) addGroup(g *group) {
	i := slices.Index(a.byMLID, nil)
	if i < 0 {
		i = len(a.byMLID)
		a.byMLID = append(a.byMLID, nil)
	}
	g.record.MLID = node.FirstMulticastLID + uint16(i)
	a.byMLID[i], a.groups[g.record.MGID] = g, g
	a.dirty[i] = true
}

func (a *admin) sortedGroups() []*group {
	return slices.SortedFunc(maps.Values(a.groups),
		func(x, y *group) int { return bytes.Compare(x.record.MGID[:], y.record.MGID[:]) })
}

// portOf returns the port with a GID, if the requester may act for it: its own, or any if it is trusted.
func (m *Manager) portOf(q *query, gid ib.GID) (*port, mad.Status) {
	prefix, guid := splitGID(gid)
	p := m.fabric.byPortGUID[guid]
	switch {
	case p == nil || p.lid == 0 || prefix != m.config.Prefix:
		return nil, sa.StatusInvalidGID
	case p != q.from && !q.trusted:
		return nil, sa.StatusDenied
	}
	return p, mad.StatusOK
}

// join adds a port to a group, which is created if needed (section 15.2.5.17.2).
func (m *Manager) join(now clock.Time, q *query) {
	var r sa.MCMemberRecord
	r.Decode(q.data)
	const always = sa.MemberPortGID | sa.MemberJoinState
	if q.Mask&always != always {
		m.refuse(q, sa.StatusInsufficientComponents)
		return
	}
	p, status := m.portOf(q, r.PortGID)
	switch {
	case status != mad.StatusOK:
		m.refuse(q, status)
		return
	case r.Join == 0 || !sa.Layout(q.Attribute).Covers(q.Mask):
		m.refuse(q, sa.StatusInvalid)
		return
	}
	if q.Mask&sa.MemberMGID == 0 {
		r.MGID = ib.GID{}
	}
	g := m.admin.groups[r.MGID]
	created := false
	if g == nil {
		if g, status = m.create(q, &r, p); status != mad.StatusOK {
			m.refuse(q, status)
			return
		}
		created = true
	} else if status = m.mayJoin(q, &r, g, p); status != mad.StatusOK {
		m.refuse(q, status)
		return
	}
	was := g.members[p.guid]
	g.members[p.guid] = was | r.Join
	index := int(g.record.MLID - node.FirstMulticastLID)
	if was&receives == 0 && r.Join&receives != 0 || was == 0 {
		m.admin.dirty[index] = true
	}
	if created {
		m.admin.reportGID(m, now, mad.TrapGroupCreated, g.record.MGID)
	}
	answer := g.record
	answer.PortGID, answer.Join, answer.ProxyJoin = r.PortGID, g.members[p.guid], r.ProxyJoin
	m.admin.replyOrHold(m, answerWith(q, answer.Append(nil)), m.admin.dirty[index])
	m.updateGroups(now)
}

// create creates a group with the parameters that its first member asks for.
func (m *Manager) create(q *query, r *sa.MCMemberRecord, p *port) (*group, mad.Status) {
	const needed = sa.MemberQKey | sa.MemberTClass | sa.MemberPKey | sa.MemberSL | sa.MemberFlowLabel
	a := &m.admin
	mine, made := 0, 0
	for _, g := range a.groups {
		if g.permanent {
			continue
		}
		made++
		if g.creator == p.guid {
			mine++
		}
	}
	mtu, okMTU := choose(q.Mask, sa.MemberMTUSelector, sa.MemberMTU, r.MTU,
		min(p.info.Lanes.MTUCap, p.info.Lanes.NeighborMTU), 1, 5)
	rate, okRate := chooseRate(q.Mask, r.Rate, sa.RateOf(&p.info.Link))
	life, okLife := choose(q.Mask, sa.MemberLifeSelector, sa.MemberLife, r.Life, 0, 0, 63)
	if q.Mask&sa.MemberLife == 0 {
		life = m.config.LifeTime
	}
	switch {
	case q.Mask&needed != needed:
		return nil, sa.StatusInsufficientComponents
	case r.Join&sa.FullMember == 0, !okMTU, !okRate, !okLife, !m.hasKey(p, r.PKey):
		return nil, sa.StatusInvalid
	case made >= m.config.Limits.Groups, mine >= m.config.Limits.PerPort, len(a.groups) >= m.fabric.groupCap:
		return nil, sa.StatusNoResources
	}
	if r.MGID == (ib.GID{}) {
		r.MGID = a.freeGID(r)
	} else if !validMGID(r.MGID) {
		return nil, sa.StatusInvalid
	}
	g := &group{creator: p.guid, members: make(map[uint64]sa.JoinState), record: *r}
	g.record.MTU, g.record.Rate, g.record.Life = exact(mtu), exact(rate), exact(life)
	g.record.PKey = g.record.PKey.Full()
	g.record.Scope = r.MGID[1] & 0xf
	g.record.PortGID, g.record.Join, g.record.ProxyJoin, g.record.Resv = ib.GID{}, 0, false, 0
	if q.Mask&sa.MemberHopLimit == 0 {
		g.record.HopLimit = 0
	}
	a.addGroup(g)
	return g, mad.StatusOK
}

// validMGID reports whether a client may create a group with an MGID: it is multicast, has no reserved flag
// (section 4.1.1), and is no MGID that freeGID returns (o15-0.1.6). Scopes do not matter within a subnet.
func validMGID(g ib.GID) bool {
	return g[0] == 0xff && g[1]&0xe0 == 0 && !(g[1]&0xf == scopeLocal && g[2] == 0xa0 && g[3] == 0x1b)
}

// freeGID chooses the MGID of a group: transient, of the requested scope or else link-local, with the signature
// that OpenSM uses.
func (a *admin) freeGID(r *sa.MCMemberRecord) ib.GID {
	g := ib.GID{0: 0xff, 1: 0x10 | scopeLocal, 2: 0xa0, 3: 0x1b}
	if r.Scope != 0 && r.Scope != 0xf {
		g[1] = 0x10 | r.Scope
	}
	for i := uint32(1); ; i++ {
		g[12], g[13], g[14], g[15] = byte(i>>24), byte(i>>16), byte(i>>8), byte(i)
		if a.groups[g] == nil {
			return g
		}
	}
}

// choose returns a new group's MTU or lifetime: the best value that the selector admits.
func choose(mask, selector, value uint64, s sa.Selected, best, low, high uint8) (uint8, bool) {
	if mask&value == 0 {
		return best, true
	}
	if mask&selector == 0 {
		s.Selector = sa.Exactly
	}
	v := s.Value
	switch s.Selector {
	case sa.GreaterThan:
		if v++; v <= best {
			v = best
		}
	case sa.LessThan:
		if v--; best != 0 {
			v = min(v, best)
		}
	case sa.Best:
		v = best
	}
	return v, v >= low && v <= high && (best == 0 || v <= best)
}

// chooseRate returns a new group's rate: the highest that the selector admits, up to that of the port.
func chooseRate(mask uint64, s sa.Selected, port uint8) (uint8, bool) {
	switch {
	case mask&sa.MemberRate == 0:
		return port, true
	case mask&sa.MemberRateSelector == 0:
		s.Selector = sa.Exactly
	}
	rate := s.HighestRate(port)
	return rate, rate != 0
}

// hasKey reports whether a port is a member of a partition.
func (m *Manager) hasKey(p *port, key ib.PKey) bool {
	return slices.ContainsFunc(m.pkeys(p), func(k ib.PKey) bool { return k.Base() == key.Base() })
}

// mayJoin checks that a group fits the parameters of the request and the capabilities of the port.
func (m *Manager) mayJoin(q *query, r *sa.MCMemberRecord, g *group, p *port) mad.Status {
	have := &g.record
	given := func(bit uint64, same bool) bool { return q.Mask&bit == 0 || same }
	selected := func(bit uint64, s sa.Selected) sa.Selected {
		if q.Mask&bit == 0 {
			s.Selector = sa.Exactly
		}
		return s
	}
	switch {
	case !given(sa.MemberQKey, r.QKey == have.QKey),
		!given(sa.MemberMLID, r.MLID == have.MLID),
		!given(sa.MemberTClass, r.TClass == have.TClass),
		!given(sa.MemberPKey, r.PKey.Base() == have.PKey.Base()),
		!given(sa.MemberSL, r.SL == have.SL),
		!given(sa.MemberFlowLabel, r.FlowLabel == have.FlowLabel),
		!given(sa.MemberHopLimit, r.HopLimit == have.HopLimit),
		!given(sa.MemberScope, r.Scope == have.Scope),
		!given(sa.MemberMTU, selected(sa.MemberMTUSelector, r.MTU).Accepts(have.MTU.Value)),
		!given(sa.MemberRate, selected(sa.MemberRateSelector, r.Rate).AcceptsRate(have.Rate.Value)),
		!given(sa.MemberLife, selected(sa.MemberLifeSelector, r.Life).Accepts(have.Life.Value)),
		!m.hasKey(p, have.PKey),
		p.info.Lanes.NeighborMTU < have.MTU.Value && !p.dev.isSwitch(),
		sa.RateMbps(sa.RateOf(&p.info.Link)) < sa.RateMbps(have.Rate.Value) && !p.dev.isSwitch():
		return sa.StatusInvalid
	}
	return mad.StatusOK
}

// leave removes join states of a member (section 15.2.5.17.3).
func (m *Manager) leave(now clock.Time, q *query) {
	var r sa.MCMemberRecord
	r.Decode(q.data)
	const always = sa.MemberMGID | sa.MemberPortGID | sa.MemberJoinState
	if q.Mask&always != always {
		m.refuse(q, sa.StatusInsufficientComponents)
		return
	}
	p, status := m.portOf(q, r.PortGID)
	if status != mad.StatusOK {
		m.refuse(q, status)
		return
	}
	g := m.admin.groups[r.MGID]
	if g == nil || r.Join == 0 || g.members[p.guid]&r.Join != r.Join {
		m.refuse(q, sa.StatusInvalid)
		return
	}
	answer := g.record
	answer.PortGID, answer.Join = r.PortGID, g.members[p.guid]&^r.Join
	if answer.Join == 0 {
		m.dropMember(now, g, p.guid)
	} else {
		g.members[p.guid] = answer.Join
		m.admin.dirty[int(g.record.MLID-node.FirstMulticastLID)] = true
		m.admin.deleteUnused(m, now, g)
	}
	m.answerRecord(q, answer.Append(nil))
	m.updateGroups(now)
}

// dropMember removes a port from a group.
func (m *Manager) dropMember(now clock.Time, g *group, guid uint64) {
	delete(g.members, guid)
	m.admin.dirty[int(g.record.MLID-node.FirstMulticastLID)] = true
	m.admin.deleteUnused(m, now, g)
}

// deleteUnused deletes a group that no member keeps alive.
func (a *admin) deleteUnused(m *Manager, now clock.Time, g *group) {
	if g.permanent {
		return
	}
	for _, j := range g.members {
		if j&keepAlive != 0 {
			return
		}
	}
	delete(a.groups, g.record.MGID)
	a.byMLID[g.record.MLID-node.FirstMulticastLID] = nil
	a.reportGID(m, now, mad.TrapGroupDeleted, g.record.MGID)
}

// replyOrHold queues a response, or holds it until the switches have the group's ports.
func (a *admin) replyOrHold(m *Manager, d Datagram, later bool) {
	if later && len(a.heldReplies) < m.config.Limits.Replies {
		a.heldReplies = append(a.heldReplies, d)
		return
	}
	m.reply(&d)
}

// flush queues the responses that were held.
func (a *admin) flush(m *Manager) {
	for i := range a.heldReplies {
		m.reply(&a.heldReplies[i])
	}
	a.heldReplies = nil
}

// groupPorts returns a group's ports at each switch.
func (f *fabric) groupPorts(index int, g *group) []routing.PortSet {
	if g == nil || len(f.routes.Trees) == 0 {
		return make([]routing.PortSet, len(f.switches))
	}
	var members, senders []routing.End
	for guid, join := range g.members {
		p := f.byPortGUID[guid]
		if p == nil {
			continue
		}
		if at, ok := graphEnd(p); ok && join&receives != 0 {
			members = append(members, at)
		} else if ok {
			senders = append(senders, at)
		}
	}
	return f.graph.Group(f.routes.Trees[index%len(f.routes.Trees)], members, senders)
}

// setGroup enters a group's ports into the wanted tables of the switches.
func (f *fabric) setGroup(index int, g *group) {
	for s, ports := range f.groupPorts(index, g) {
		d := f.switches[s]
		for len(d.mft) <= index {
			d.mft = append(d.mft, routing.PortSet{})
		}
		d.mft[index] = ports
	}
}

// routeGroups enters all groups, for a sweep that sets the tables of all switches.
func (m *Manager) routeGroups(f *fabric) {
	for i, g := range m.admin.byMLID {
		f.setGroup(i, g)
	}
	clear(m.admin.dirty)
}

// updateGroups sets the multicast tables for groups that have changed since the last sweep.
func (m *Manager) updateGroups(now clock.Time) {
	a := &m.admin
	if m.phase != idle || m.fabric == nil || len(a.dirty) == 0 && len(a.heldReplies) == 0 {
		return
	}
	blocks := make(map[int]bool)
	for i := range a.dirty {
		m.fabric.setGroup(i, a.byMLID[i])
		blocks[i/smp.MulticastPerBlock] = true
	}
	clear(a.dirty)
	m.phase = groups
	for _, block := range slices.Sorted(maps.Keys(blocks)) {
		for _, d := range m.fabric.switches {
			m.setMulticastBlock(d, block)
		}
	}
	m.advance(now)
}

// collectMembers collects group memberships. Requesters that are not trusted see the groups, and of members only
// themselves (section 15.4.1.2).
func (m *Manager) collectMembers(t *table) {
	var q sa.MCMemberRecord
	q.Decode(t.q.data)
	selectors := t.mask
	t.mask &^= sa.MemberMTUSelector | sa.MemberMTU | sa.MemberRateSelector | sa.MemberRate | sa.MemberLifeSelector |
		sa.MemberLife
	for _, g := range m.admin.sortedGroups() {
		if selectors&sa.MemberMTU != 0 && !q.MTU.Accepts(g.record.MTU.Value) ||
			selectors&sa.MemberRate != 0 && !q.Rate.AcceptsRate(g.record.Rate.Value) ||
			selectors&sa.MemberLife != 0 && !q.Life.Accepts(g.record.Life.Value) {
			continue
		}
		if !t.q.trusted && t.mask&(sa.MemberPortGID|sa.MemberJoinState) == 0 {
			t.add(&g.record)
			continue
		}
		if len(g.members) == 0 && t.q.trusted && t.mask&(sa.MemberPortGID|sa.MemberJoinState) == 0 {
			t.add(&g.record)
		}
		for _, guid := range slices.Sorted(maps.Keys(g.members)) {
			p := m.fabric.byPortGUID[guid]
			if p == nil || p != t.q.from && !t.q.trusted {
				continue
			}
			r := g.record
			r.PortGID, r.Join = m.gid(p), g.members[guid]
			t.add(&r)
		}
	}
}
