// SPDX-License-Identifier: Apache-2.0

package sm

import (
	"github.com/ramjet-rdma/ramjet/internal/base/clock"
	"github.com/ramjet-rdma/ramjet/wire/mad"
	"github.com/ramjet-rdma/ramjet/wire/mad/sa"
	"github.com/ramjet-rdma/ramjet/wire/mad/smp"
)

// collect collects the records that match a query.
func (m *Manager) collect(now clock.Time, t *table) mad.Status {
	switch t.q.Attribute {
	case sa.AttrPathRecord:
		return m.collectPaths(t)
	case sa.AttrMCMemberRecord:
		m.collectMembers(t)
	case sa.AttrServiceRecord:
		m.collectServices(now, t)
	case sa.AttrInformInfoRecord:
		m.collectSubscriptions(t)
	case sa.AttrSMInfoRecord:
		m.collectManagers(t)
	default:
		m.collectPorts(t)
	}
	return mad.StatusOK
}

// collectPorts collects records of nodes and ports, from the last sweep.
func (m *Manager) collectPorts(t *table) {
	for _, d := range m.fabric.devices {
		for n := range d.ports {
			p := &d.ports[n]
			if !p.known || p.lid == 0 || t.full {
				continue
			}
			if t.skips(p.lid) {
				continue
			}
			switch t.q.Attribute {
			case sa.AttrNodeRecord:
				if p.hasLID() {
					r := sa.NodeRecord{LID: p.lid, Info: d.info, Description: d.desc}
					r.Info.PortGUID, r.Info.LocalPort = p.guid, p.num
					t.add(&r)
				}
			case sa.AttrPortInfoRecord:
				r := sa.PortInfoRecord{LID: p.lid, Port: p.num, Info: p.info}
				if !t.q.trusted {
					r.Info.MKey = 0
				}
				t.add(&r)
			case sa.AttrLinkRecord:
				if p.linked() {
					t.add(&sa.LinkRecord{FromLID: p.lid, FromPort: p.num, ToPort: p.peer.num, ToLID: p.peer.lid})
				}
			case sa.AttrGUIDInfoRecord:
				if p.hasLID() {
					t.add(&sa.GUIDInfoRecord{LID: p.lid, GUIDs: smp.GUIDInfo{p.guid}})
				}
			case sa.AttrPKeyRecord:
				for block := 0; block*smp.PKeysPerBlock < len(p.programmed.pkeys); block++ {
					t.add(&sa.PKeyRecord{LID: p.lid, Port: switchPort(p), Block: uint16(block),
						PKeys: pkeyBlock(p.programmed.pkeys, block)})
				}
			case sa.AttrSLtoVLRecord:
				collectSLtoVL(t, p)
			case sa.AttrVLArbRecord:
				if p.programmed.vls > 0 && p.info.Lanes.ArbLowCap > 0 {
					t.add(&sa.VLArbRecord{LID: p.lid, Port: switchPort(p), Block: smp.ArbLow,
						Table: lowTable(p.programmed.vls, int(p.info.Lanes.ArbLowCap))})
				}
				if p.programmed.vls > 0 && p.info.Lanes.ArbHighCap > 0 {
					t.add(&sa.VLArbRecord{LID: p.lid, Port: switchPort(p), Block: smp.ArbHigh})
				}
			default:
				if d.isSwitch() && p.num == 0 {
					collectSwitch(t, d)
				}
			}
		}
	}
}

// switchPort returns a port's number for records that have one only for switches.
func switchPort(p *port) uint8 {
	if p.dev.isSwitch() {
		return p.num
	}
	return 0
}

func collectSLtoVL(t *table, p *port) {
	if p.programmed.vls == 0 {
		return
	}
	row := slToVL(p.programmed.vls)
	if !p.dev.isSwitch() {
		t.add(&sa.SLtoVLRecord{LID: p.lid, Table: row})
		return
	}
	for in := range p.dev.ports {
		if in != int(p.num) {
			t.add(&sa.SLtoVLRecord{LID: p.lid, In: uint8(in), Out: p.num, Table: row})
		}
	}
}

// collectSwitch collects records that only switches have.
func collectSwitch(t *table, d *device) {
	lid := d.ports[0].lid
	switch t.q.Attribute {
	case sa.AttrSwitchInfoRecord:
		t.add(&sa.SwitchInfoRecord{LID: lid, Info: d.sw})
	case sa.AttrLinearRecord:
		for block := 0; block*smp.LinearPerBlock < len(d.programmed.lft); block++ {
			t.add(&sa.LinearRecord{LID: lid, Block: uint16(block), Table: linearBlock(d.programmed.lft, block)})
		}
	case sa.AttrMulticastRecord:
		for block := 0; block*smp.MulticastPerBlock < len(d.programmed.mft); block++ {
			for position := 0; position*16 < len(d.ports); position++ {
				t.add(&sa.MulticastRecord{LID: lid, Position: uint8(position), Block: uint16(block),
					Table: multicastBlock(d.programmed.mft, block, position)})
			}
		}
	}
}

// collectManagers collects the subnet managers, without their keys.
func (m *Manager) collectManagers(t *table) {
	own := m.smInfo()
	own.SMKey = 0
	t.add(&sa.SMInfoRecord{LID: m.fabric.own.lid, Info: own})
	for _, o := range m.fabric.managers {
		r := sa.SMInfoRecord{LID: o.port.lid, Info: o.info}
		r.Info.SMKey = 0
		t.add(&r)
	}
}
