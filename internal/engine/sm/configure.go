// SPDX-License-Identifier: Apache-2.0

package sm

import (
	"slices"

	"github.com/ramjet-rdma/ramjet/internal/base/clock"
	"github.com/ramjet-rdma/ramjet/internal/engine/node"
	"github.com/ramjet-rdma/ramjet/internal/engine/routing"
	"github.com/ramjet-rdma/ramjet/wire/ib"
	"github.com/ramjet-rdma/ramjet/wire/mad"
	"github.com/ramjet-rdma/ramjet/wire/mad/smp"
)

// set queues a Set of an attribute of a node.
func (m *Manager) set(d *device, p *port, path []uint8, a mad.Attribute, modifier uint32,
	attribute interface{ Append([]byte) []byte }) {
	r := request{purpose: configuring, method: mad.MethodSet, attribute: a, modifier: modifier, dev: d, port: p,
		path: path}
	attribute.Append(r.data[:0])
	m.enqueue(r)
}

// setTables sets the tables that differ from the wanted ones: forwarding, partitions, virtual lanes.
func (m *Manager) setTables() {
	f := m.next
	m.routeGroups(f)
	for _, d := range f.switches {
		m.setForwarding(d)
		m.setMulticast(d)
	}
	for _, d := range f.devices {
		for n := range d.ports {
			p := &d.ports[n]
			if !p.known || p.path == nil && p != f.own && !d.isSwitch() {
				continue
			}
			m.setPartitions(p)
			if p.linked() {
				m.setLanes(p)
			}
		}
	}
}

// setForwarding sets the blocks of the linear forwarding table that differ, and then LinearFDBTop.
func (m *Manager) setForwarding(d *device) {
	for block := 0; block*smp.LinearPerBlock < len(d.lft); block++ {
		t := linearBlock(d.lft, block)
		if have := linearBlock(d.programmed.lft, block); (block+1)*smp.LinearPerBlock <= len(d.programmed.lft) &&
			have == t {
			continue
		}
		m.set(d, nil, d.path, smp.AttrLinearTable, uint32(block), &t)
	}
	if top := uint16(len(d.lft) - 1); top != d.programmed.lftTop {
		s := d.sw
		s.LinearTop, s.PortStateChange = top, false
		m.set(d, nil, d.path, smp.AttrSwitchInfo, 0, &s)
	}
}

func linearBlock(table []uint8, block int) (t smp.LinearTable) {
	for i := range t {
		t[i] = node.NoRoute
		if lid := block*smp.LinearPerBlock + i; lid < len(table) {
			t[i] = table[lid]
		}
	}
	return t
}

// setMulticast sets the blocks of the multicast forwarding table that differ.
func (m *Manager) setMulticast(d *device) {
	for block := 0; block*smp.MulticastPerBlock < max(len(d.mft), len(d.programmed.mft)); block++ {
		m.setMulticastBlock(d, block)
	}
}

func (m *Manager) setMulticastBlock(d *device, block int) {
	for position := 0; position*16 < len(d.ports); position++ {
		t := multicastBlock(d.mft, block, position)
		if known := (block+1)*smp.MulticastPerBlock <= len(d.programmed.mft); known &&
			multicastBlock(d.programmed.mft, block, position) == t {
			continue
		}
		m.set(d, nil, d.path, smp.AttrMulticastTable, smp.MulticastModifier(uint8(position), uint16(block)), &t)
	}
}

func multicastBlock(table []routing.PortSet, block, position int) (t smp.MulticastTable) {
	for i := range t {
		if n := block*smp.MulticastPerBlock + i; n < len(table) {
			t[i] = uint16(table[n][position/4] >> (position % 4 * 16))
		}
	}
	return t
}

// enforces reports whether a switch's port is to check the partitions of the adapter behind it.
func (m *Manager) enforces(p *port) bool {
	return len(m.config.Partitions) > 0 && p.dev.isSwitch() && p.num != 0 && p.linked() && !p.peer.dev.isSwitch() &&
		p.dev.sw.Flags&(smp.SwitchEnforcesIn|smp.SwitchEnforcesOut) != 0 &&
		int(p.dev.sw.EnforcementCap) >= len(m.pkeys(p.peer))
}

// setPartitions sets a port's partition table: of ports with a LID, and of ports of switches that
// enforce partitions.
func (m *Manager) setPartitions(p *port) {
	var keys []ib.PKey
	capacity := int(p.dev.info.PartitionCap)
	switch {
	case p.hasLID():
		keys = m.pkeys(p)
	case m.enforces(p):
		// Of two keys one has to be a full member's, and packets of a limited member do not have one: the two
		// ends check whether they may talk (section 10.9.3).
		keys, capacity = m.pkeys(p.peer), int(p.dev.sw.EnforcementCap)
		for i := range keys {
			keys[i] = keys[i].Full()
		}
	default:
		return
	}
	keys = keys[:min(len(keys), max(capacity, 1))]
	if slices.Equal(keys, p.programmed.pkeys) {
		return
	}
	num := uint8(0)
	if p.dev.isSwitch() {
		num = p.num
	}
	blocks := (max(len(keys), len(p.programmed.pkeys)) + smp.PKeysPerBlock - 1) / smp.PKeysPerBlock
	for block := range blocks {
		t := pkeyBlock(keys, block)
		if pkeyBlock(p.programmed.pkeys, block) != t || p.programmed.pkeys == nil {
			m.set(p.dev, p, p.path, smp.AttrPKeyTable, smp.PKeyModifier(num, uint16(block)), &t)
		}
	}
}

func pkeyBlock(keys []ib.PKey, block int) (t smp.PKeyTable) {
	if at := block * smp.PKeysPerBlock; at < len(keys) {
		copy(t[:], keys[at:])
	}
	return t
}

// weight is the arbitration weight of each lane, in units of 64 bytes: 4 KiB.
const weight = 64

// setLanes maps service levels to the lanes of a port, and gives these the same share.
func (m *Manager) setLanes(p *port) {
	n := m.dataVLs(p)
	if p.programmed.vls == n {
		return
	}
	row := slToVL(n)
	if p.dev.isSwitch() {
		for in := range p.dev.ports {
			if in != int(p.num) {
				m.set(p.dev, p, p.path, smp.AttrSLtoVL, smp.SLtoVLModifier(uint8(in), p.num), &row)
			}
		}
	} else {
		m.set(p.dev, p, p.path, smp.AttrSLtoVL, 0, &row)
	}
	num := uint8(0)
	if p.dev.isSwitch() {
		num = p.num
	}
	if p.info.Lanes.ArbHighCap > 0 {
		m.set(p.dev, p, p.path, smp.AttrVLArbitration, smp.VLArbitrationModifier(smp.ArbHigh, num),
			&smp.VLArbitration{})
	}
	if p.info.Lanes.ArbLowCap > 0 {
		low := lowTable(n, int(p.info.Lanes.ArbLowCap))
		m.set(p.dev, p, p.path, smp.AttrVLArbitration, smp.VLArbitrationModifier(smp.ArbLow, num), &low)
	}
}

func slToVL(lanes int) (row smp.SLtoVL) {
	for sl := range row {
		row[sl] = uint8(sl % lanes)
	}
	return row
}

func lowTable(lanes, rows int) (t smp.VLArbitration) {
	for vl := range min(lanes, rows) {
		t[vl] = smp.ArbEntry{VL: uint8(vl), Weight: weight}
	}
	return t
}

// setPorts sets PortInfo, and takes links from Initialize to Armed, or with active from Armed to Active.
func (m *Manager) setPorts(active bool) {
	f := m.next
	for _, d := range f.devices {
		for n := range d.ports {
			p := &d.ports[n]
			if !p.known || !p.hasLID() && !p.linked() {
				continue
			}
			w, differs := m.desiredPortInfo(f, p)
			raise := p.linked() && p.num != 0
			switch {
			case active && (!raise || p.state() != node.Armed):
				continue
			case active:
				w.Link.State = uint8(node.Active)
			case raise && p.state() == node.Initialize:
				w.Link.State = uint8(node.Armed)
				differs = true
			}
			if !active && m.needsReregister(p) && !d.isSwitch() && p.info.CapMask&smp.CapClientReregister != 0 {
				w.ClientReregister = true
				differs = true
			}
			if active || differs {
				m.set(d, p, p.path, smp.AttrPortInfo, uint32(p.num), &w)
			}
		}
	}
}

// needsReregister reports whether a port's clients must repeat their registrations: this manager does not know
// their memberships, services and subscriptions.
func (m *Manager) needsReregister(p *port) bool {
	return p.hasLID() && (m.firstSweep || m.fabric == nil || m.fabric.byPortGUID[p.guid] == nil)
}

// configured handles the response to a Set.
func (m *Manager) configured(r *request, p *smp.SMP) {
	d := r.dev
	switch r.attribute {
	case smp.AttrSwitchInfo:
		var s smp.SwitchInfo
		s.Decode(r.data[:])
		d.programmed.lftTop = s.LinearTop
		d.sw.LinearTop = s.LinearTop
	case smp.AttrLinearTable:
		at := int(r.modifier) * smp.LinearPerBlock
		for len(d.programmed.lft) < at+smp.LinearPerBlock {
			d.programmed.lft = append(d.programmed.lft, node.NoRoute)
		}
		copy(d.programmed.lft[at:], r.data[:])
	case smp.AttrMulticastTable:
		var t smp.MulticastTable
		t.Decode(r.data[:])
		block, position := int(r.modifier&0x1ff), int(r.modifier>>28)
		for len(d.programmed.mft) < (block+1)*smp.MulticastPerBlock {
			d.programmed.mft = append(d.programmed.mft, routing.PortSet{})
		}
		for i, ports := range t {
			w := &d.programmed.mft[block*smp.MulticastPerBlock+i][position/4]
			shift := position % 4 * 16
			*w = *w&^(0xffff<<shift) | uint64(ports)<<shift
		}
	case smp.AttrPKeyTable:
		var t smp.PKeyTable
		t.Decode(r.data[:])
		at := int(r.modifier&0xffff) * smp.PKeysPerBlock
		keys := append(slices.Clone(r.port.programmed.pkeys[:min(at, len(r.port.programmed.pkeys))]), t[:]...)
		for len(keys) > 0 && keys[len(keys)-1] == 0 {
			keys = keys[:len(keys)-1]
		}
		r.port.programmed.pkeys = keys
	case smp.AttrSLtoVL, smp.AttrVLArbitration:
		r.port.programmed.vls = m.dataVLs(r.port)
	case smp.AttrPortInfo:
		r.port.info.Decode(p.Data[:])
		r.port.info.ClientReregister = false
		if m.phase == activate && r.port.state() != node.Active {
			m.emit(nodeEvent(NotActive, r.dev, r.port.num))
			m.sweep.failures++
		}
	}
}

// sweepDone ends a sweep: the administrator answers from its result.
func (m *Manager) sweepDone(now clock.Time) {
	f := m.next
	old := m.fabric
	m.phase = idle
	m.fabric, m.next = f, nil
	m.firstSweep = false
	m.sweep.doneAt = now
	m.Counters.Sweeps++
	m.emit(Event{Kind: SweepDone, Count: len(f.devices)})
	m.sweep.lightAt = now + clock.Time(m.config.SweepInterval)
	m.admin.afterSweep(m, now, old, f)
	if m.sweep.failures > 0 {
		m.emit(Event{Kind: SweepFailed, Count: m.sweep.failures})
		m.scheduleRetry(now)
	} else {
		m.sweep.backoff = 0
	}
	if !m.sweep.again {
		m.sweep.restarts = 0
	}
	m.whenIdle(now)
}

// Bounds of the delay before a sweep with failures is repeated.
const (
	minBackoff = clock.Time(1e9)
	maxBackoff = clock.Time(30e9)
)

// scheduleRetry schedules another sweep, with exponential backoff.
func (m *Manager) scheduleRetry(now clock.Time) {
	s := &m.sweep
	s.backoff = min(max(2*s.backoff, minBackoff), maxBackoff)
	s.heavyAt = now + s.backoff
}
