// SPDX-License-Identifier: Apache-2.0

package sm

import (
	"github.com/ramjet-rdma/ramjet/internal/engine/node"
	"github.com/ramjet-rdma/ramjet/wire/ib"
	"github.com/ramjet-rdma/ramjet/wire/mad"
	"github.com/ramjet-rdma/ramjet/wire/mad/sa"
)

// collectPaths collects paths (section 15.2.5.16) from the source ports that the query selects to its destination
// ports.
func (m *Manager) collectPaths(t *table) mad.Status {
	var q sa.PathRecord
	q.Decode(t.q.data)
	f := m.fabric
	from, status := m.endsOf(t.mask&sa.PathSGID != 0, q.SGID, t.mask&sa.PathSLID != 0, q.SLID)
	if status != mad.StatusOK {
		return status
	}
	if t.mask&sa.PathDGID != 0 && q.DGID[0] == 0xff ||
		t.mask&sa.PathDGID == 0 && t.mask&sa.PathDLID != 0 && q.DLID >= node.FirstMulticastLID &&
			q.DLID != node.PermissiveLID {
		m.collectGroupPaths(t, &q, from)
		return mad.StatusOK
	}
	to, status := m.endsOf(t.mask&sa.PathDGID != 0, q.DGID, t.mask&sa.PathDLID != 0, q.DLID)
	if status != mad.StatusOK {
		return status
	}
	if len(from)*len(to) > m.config.Limits.PathPairs { // records are limited by their bytes, but none may match
		return sa.StatusNoResources
	}
	for _, src := range from {
		for _, dst := range to {
			if t.full {
				return mad.StatusOK
			}
			m.addPaths(t, &q, f, src, dst)
		}
	}
	return mad.StatusOK
}

// endsOf returns the ports that a query selects by GID or LID; all, if by neither.
func (m *Manager) endsOf(hasGID bool, gid [16]byte, hasLID bool, lid uint16) ([]*port, mad.Status) {
	f := m.fabric
	switch {
	case hasGID:
		prefix, guid := splitGID(gid)
		p := f.byPortGUID[guid]
		if p == nil || p.lid == 0 || prefix != m.config.Prefix {
			return nil, sa.StatusInvalidGID
		}
		if hasLID && f.at(lid) != p {
			return nil, mad.StatusOK
		}
		return []*port{p}, mad.StatusOK
	case hasLID:
		if p := f.at(lid); p != nil {
			return []*port{p}, mad.StatusOK
		}
		return nil, mad.StatusOK
	}
	all := make([]*port, 0, len(f.byLID))
	for lid, p := range f.byLID {
		if p != nil && int(p.lid) == lid {
			all = append(all, p)
		}
	}
	return all, mad.StatusOK
}

// pathOwn are the components that do not select among paths: they are checked here, or copied to the records.
const pathOwn = sa.PathServiceIDHigh | sa.PathServiceIDLow | sa.PathNumbPath | sa.PathMTUSelector | sa.PathMTU |
	sa.PathRateSelector |
	sa.PathRate | sa.PathLifeSelector | sa.PathLife | sa.PathReversible | sa.PathFlowLabel | sa.PathHopLimit |
	sa.PathTClass | sa.PathQoSClass |
	sa.PathPKey | sa.PathSL

// addPaths adds the paths between two ports: one for each LID of the destination, from the source's LID with the same
// index, or from and to the LIDs in the query. A Get yields the first one.
func (m *Manager) addPaths(t *table, q *sa.PathRecord, f *fabric, src, dst *port) {
	from, to, n := src.lid, dst.lid, max(m.lidCount(src), m.lidCount(dst))
	if t.mask&sa.PathSLID != 0 {
		from = q.SLID
	}
	if t.mask&sa.PathDLID != 0 {
		to, n = q.DLID, 1
	}
	if t.q.Method == mad.MethodGet {
		n = 1
	} else if t.mask&sa.PathNumbPath != 0 && q.NumbPath > 0 {
		n = min(n, int(q.NumbPath))
	}
	for i := range n {
		slid, dlid := from, to
		if t.mask&sa.PathSLID == 0 {
			slid += uint16(i % m.lidCount(src))
		}
		if t.mask&sa.PathDLID == 0 {
			dlid += uint16(i % m.lidCount(dst))
		}
		m.addPath(t, q, f, src, dst, slid, dlid)
	}
}

// addPath adds the path between two LIDs if it exists and matches the query.
func (m *Manager) addPath(t *table, q *sa.PathRecord, f *fabric, src, dst *port, slid, dlid uint16) {
	mtu, rate, ok := f.path(src, dst, dlid)
	if !ok {
		return
	}
	r := sa.PathRecord{DGID: m.gid(dst), SGID: m.gid(src), DLID: dlid, SLID: slid,
		PKey: m.sharedKey(src, dst, t.mask&sa.PathPKey != 0, q.PKey),
		MTU:  exact(mtu), Rate: exact(rate), Life: exact(m.config.LifeTime)}
	if r.PKey == 0 {
		return
	}
	t.addPath(q, &r)
}

// addPath adds a path if its MTU, rate and lifetime match the query, with the components that are copied from it.
func (t *table) addPath(q, r *sa.PathRecord) {
	mask := t.mask
	if mask&sa.PathMTU != 0 && !q.MTU.Accepts(r.MTU.Value) ||
		mask&sa.PathRate != 0 && !q.Rate.AcceptsRate(r.Rate.Value) ||
		mask&sa.PathLife != 0 && !q.Life.Accepts(r.Life.Value) || mask&sa.PathRawTraffic != 0 && q.RawTraffic {
		return
	}
	if mask&sa.PathSL != 0 {
		r.SL = q.SL
	}
	if mask&sa.PathTClass != 0 {
		r.TClass = q.TClass
	}
	if mask&sa.PathFlowLabel != 0 {
		r.FlowLabel = q.FlowLabel
	}
	if mask&(sa.PathServiceIDHigh|sa.PathServiceIDLow) != 0 {
		r.ServiceID = q.ServiceID
	}
	if mask&sa.PathQoSClass != 0 {
		r.QoSClass = q.QoSClass
	}
	r.Reversible, r.NumbPath = true, 1
	t.mask &^= pathOwn
	t.add(r)
	t.mask = mask
}

// sharedKey returns the P_Key of a path: the requested one, or the first that both ports share; 0: there is none.
func (m *Manager) sharedKey(a, b *port, asked bool, want ib.PKey) ib.PKey {
	for _, k := range m.pkeys(a) {
		for _, l := range m.pkeys(b) {
			if k.Match(l) && (!asked || k.Base() == want.Base()) {
				return k & l.Full()
			}
		}
	}
	return 0
}

// path follows the forwarding tables from a port to a LID of another one, and returns the smallest MTU and the lowest
// rate of the links on the path.
func (f *fabric) path(src, dst *port, lid uint16) (mtu, rate uint8, ok bool) {
	p := src
	mtu, rate = src.info.Lanes.MTUCap, 0
	if src != dst || !src.dev.isSwitch() {
		rate = sa.RateOf(&src.info.Link)
	}
	if src == dst {
		return mtu, rate, true
	}
	rate = 0
	out := p
	if p.dev.isSwitch() {
		if out = f.leave(p.dev, lid); out == nil {
			return 0, 0, false
		}
	}
	for range len(f.switches) + 1 {
		if !out.linked() {
			return 0, 0, false
		}
		mtu = min(mtu, out.info.Lanes.MTUCap, out.peer.info.Lanes.MTUCap)
		if r := sa.RateOf(&out.info.Link); rate == 0 || sa.RateMbps(r) < sa.RateMbps(rate) {
			rate = r
		}
		at := out.peer
		if at == dst {
			return mtu, rate, true
		}
		if !at.dev.isSwitch() {
			return 0, 0, false
		}
		if out = f.leave(at.dev, lid); out == nil {
			return 0, 0, false
		}
		if out.num == 0 {
			return mtu, rate, out == dst
		}
	}
	return 0, 0, false
}

// leave returns the output port of a switch for a LID; nil: it drops the packets.
func (f *fabric) leave(d *device, lid uint16) *port {
	if int(lid) >= len(d.lft) || int(d.lft[lid]) >= len(d.ports) {
		return nil
	}
	return &d.ports[d.lft[lid]]
}

// collectGroupPaths collects paths to a multicast group.
func (m *Manager) collectGroupPaths(t *table, q *sa.PathRecord, from []*port) {
	g := m.admin.groups[q.DGID]
	if t.mask&sa.PathDGID == 0 {
		if i := int(q.DLID - node.FirstMulticastLID); i < len(m.admin.byMLID) {
			g = m.admin.byMLID[i]
		}
	}
	if g == nil {
		return
	}
	h := &g.record
	for _, src := range from {
		if t.mask&sa.PathPKey != 0 && q.PKey.Base() != h.PKey.Base() || !m.hasKey(src, h.PKey) ||
			t.mask&sa.PathSL != 0 && q.SL != h.SL {
			continue
		}
		t.addPath(q, &sa.PathRecord{DGID: h.MGID, SGID: m.gid(src), DLID: h.MLID, SLID: src.lid, PKey: h.PKey, SL: h.SL,
			TClass: h.TClass, FlowLabel: h.FlowLabel, HopLimit: h.HopLimit, MTU: h.MTU, Rate: h.Rate, Life: h.Life})
	}
}
