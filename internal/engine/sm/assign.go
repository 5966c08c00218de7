// SPDX-License-Identifier: Apache-2.0

package sm

import (
	"slices"

	"github.com/ramjet-rdma/ramjet/internal/engine/node"
	"github.com/ramjet-rdma/ramjet/internal/engine/routing"
	"github.com/ramjet-rdma/ramjet/wire/mad/smp"
)

// lids are the assigned LIDs by port GUID. A port that goes away keeps its LID.
type lids struct {
	of   map[uint64]uint16
	next uint16
}

// assignLIDs assigns a LID to each port: the LID assigned before, else the LID that the port has if it is free,
// else a free one.
func (m *Manager) assignLIDs(f *fabric) {
	limit := node.FirstMulticastLID - 1
	var ends []*port
	for _, d := range f.devices {
		if d.isSwitch() && d.sw.LinearCap > 0 {
			limit = min(limit, d.sw.LinearCap-1)
		}
		for n := range d.ports {
			if p := &d.ports[n]; p.hasLID() && p.known && (p.linked() || p == f.own || d.isSwitch()) {
				ends = append(ends, p)
			}
		}
	}
	used := make([]bool, int(limit)+1)
	block := uint16(1) << m.config.LMC
	for guid, lid := range m.lids.of {
		if !reserve(used, lid, block) {
			delete(m.lids.of, guid)
		}
	}
	for _, p := range ends {
		if m.lids.of[p.guid] == 0 {
			if lid := p.info.LID; reserve(used, lid, block) {
				m.lids.of[p.guid] = lid
			}
		}
	}
	f.byLID = make([]*port, 0, len(ends)+1)
	for _, p := range ends {
		if m.lids.of[p.guid] == 0 {
			lid := m.lids.allocate(used, block)
			if lid == 0 {
				m.releaseAbsent(f, used)
				lid = m.lids.allocate(used, block)
			}
			if lid == 0 {
				m.emit(nodeEvent(NoMoreLIDs, p.dev, p.num))
				m.sweep.failures++
				continue
			}
			m.lids.of[p.guid] = lid
		}
		p.lid = m.lids.of[p.guid]
		last := int(p.lid) + m.lidCount(p) - 1
		for len(f.byLID) <= last {
			f.byLID = append(f.byLID, nil)
		}
		for lid := int(p.lid); lid <= last; lid++ {
			f.byLID[lid] = p
		}
	}
	for _, d := range f.devices {
		if d.isSwitch() {
			for n := range d.ports {
				d.ports[n].lid = d.ports[0].lid
			}
		}
	}
}

// lidCount returns how many LIDs a port has. A switch has one, though a whole block is reserved for it.
func (m *Manager) lidCount(p *port) int {
	if p.dev.isSwitch() {
		return 1
	}
	return 1 << m.config.LMC
}

// reserve reserves a block of LIDs if it is aligned and free.
func reserve(used []bool, lid, block uint16) bool {
	end := int(lid) + int(block)
	if lid == 0 || lid&(block-1) != 0 || end > len(used) || slices.Contains(used[lid:end], true) {
		return false
	}
	for i := int(lid); i < end; i++ {
		used[i] = true
	}
	return true
}

// allocate reserves the next free block of LIDs; 0: there is none.
func (l *lids) allocate(used []bool, block uint16) uint16 {
	for range len(used)/int(block) + 1 {
		if l.next = (l.next + block) &^ (block - 1); int(l.next)+int(block) > len(used) {
			l.next = block
		}
		if reserve(used, l.next, block) {
			return l.next
		}
	}
	return 0
}

// releaseAbsent frees the LIDs of ports that this sweep has not found.
func (m *Manager) releaseAbsent(f *fabric, used []bool) {
	for guid, lid := range m.lids.of {
		if f.byPortGUID[guid] == nil {
			delete(m.lids.of, guid)
			clear(used[lid : int(lid)+1<<m.config.LMC])
		}
	}
}

// route computes the routes of the subnet.
func (m *Manager) route(f *fabric) {
	f.groupCap = int(node.LastMulticastLID-node.FirstMulticastLID) + 1
	for _, d := range f.devices {
		if d.isSwitch() {
			d.index = int32(len(f.switches))
			f.switches = append(f.switches, d)
			f.groupCap = min(f.groupCap, int(d.sw.MulticastCap))
		}
	}
	for _, d := range f.switches {
		peers := make([]routing.End, len(d.ports))
		for n := range d.ports {
			peers[n] = routing.NoEnd
			if p := &d.ports[n]; n > 0 && p.linked() && p.peer.dev.isSwitch() {
				peers[n] = routing.End{Switch: p.peer.dev.index, Port: p.peer.num}
			}
		}
		f.graph.Peers = append(f.graph.Peers, peers)
	}
	for lid, p := range f.byLID {
		if p == nil {
			continue
		}
		if at, ok := graphEnd(p); ok {
			f.graph.Endpoints = append(f.graph.Endpoints, routing.Endpoint{LID: uint16(lid), At: at})
		}
	}
	f.routes = f.graph.Route(m.config.Routing)
	if f.routes.Loop != nil {
		m.emit(Event{Kind: CreditLoop, Count: len(f.routes.Loop)})
	}
	for s, d := range f.switches {
		d.lft = f.routes.Tables[s]
	}
}

// inherit copies the known tables of nodes from the last sweep, so that only differences are set. It leaves out
// ports in Initialize, whose node may have been powered off and have lost its tables.
func (m *Manager) inherit(f *fabric) {
	if m.fabric == nil || m.fabric.ambiguous {
		return
	}
	for _, d := range f.devices {
		old := m.fabric.byGUID[d.info.NodeGUID]
		if old == nil || old.unresponsive || len(old.ports) != len(d.ports) || old.isSwitch() != d.isSwitch() {
			continue
		}
		if d.isSwitch() {
			if d.sw.LinearTop != old.programmed.lftTop || d.ports[0].info.LID == 0 ||
				d.ports[0].info.LID != old.ports[0].lid {
				continue
			}
			d.programmed = old.programmed
		}
		for n := range d.ports {
			if p := &d.ports[n]; p.state() > node.Initialize || p.num == 0 {
				p.programmed = old.ports[n].programmed
			}
		}
	}
}

// desiredPortInfo returns the PortInfo to set at a port, and whether it differs from the port's.
func (m *Manager) desiredPortInfo(f *fabric, p *port) (w smp.PortInfo, differs bool) {
	w = p.info
	w.Link.WidthEnabled, w.Link.SpeedEnabled, w.Link.SpeedExtEnabled = 0, 0, 0
	w.Link.State, w.Link.PhysState, w.Link.DownDefault = 0, 0, 0
	w.ClientReregister = false
	if p.hasLID() {
		w.MKey, w.Lease, w.Protect = m.config.MKey, m.config.Lease, m.config.Protect
		w.GIDPrefix = m.config.Prefix
		w.LID, w.LMC = p.lid, 0
		if !p.dev.isSwitch() {
			w.LMC = m.config.LMC
		}
		w.MasterSMLID, w.Lanes.MasterSMSL = f.own.lid, 0
		w.SubnetTimeout = m.config.LifeTime
	}
	if p.linked() {
		w.Lanes.NeighborMTU = min(p.info.Lanes.MTUCap, p.peer.info.Lanes.MTUCap)
		w.Lanes.OperationalVLs = smp.VLCode(m.dataVLs(p))
		w.Lanes.HighLimit = 0
		if p.dev.isSwitch() && m.config.HOQLife != 0 {
			w.Lanes.HOQLife = m.config.HOQLife
		}
		enforce := m.enforces(p)
		w.Lanes.EnforceIn, w.Lanes.EnforceOut = enforce, enforce
	}
	was := &p.info
	differs = w.MKey != was.MKey || w.Lease != was.Lease || w.Protect != was.Protect || w.GIDPrefix != was.GIDPrefix ||
		w.LID != was.LID || w.LMC != was.LMC || w.MasterSMLID != was.MasterSMLID ||
		w.SubnetTimeout != was.SubnetTimeout ||
		w.Lanes != was.Lanes
	// Zero would clear these counters.
	w.Violations.MKey, w.Violations.PKey, w.Violations.QKey = 0xffff, 0xffff, 0xffff
	return w, differs
}

// dataVLs returns how many data VLs the link of a port uses, one of the numbers that can be encoded.
func (m *Manager) dataVLs(p *port) int {
	n := min(smp.VLs(p.info.Lanes.Cap), m.config.MaxVLs)
	if p.linked() {
		n = min(n, smp.VLs(p.peer.info.Lanes.Cap))
	}
	codes := []int{15, 8, 4, 2, 1}
	return codes[max(0, slices.IndexFunc(codes, func(c int) bool { return c <= n || c == 1 }))]
}
