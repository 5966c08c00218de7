// SPDX-License-Identifier: Apache-2.0

package sma

import (
	"github.com/ramjet-rdma/ramjet/internal/engine/node"
	"github.com/ramjet-rdma/ramjet/wire/mad"
	"github.com/ramjet-rdma/ramjet/wire/mad/smp"
)

// extendedSpeeds is the bit of a PortInfo's modifier that says that the manager supports extended speeds. Without it a
// Set leaves them unchanged (section 14.2.5.6).
const extendedSpeeds = 1 << 31

// arbitrationRows is the number of rows of each of a port's two VL arbitration tables.
const arbitrationRows = 64

// ownCapabilities are the capabilities of every port.
const ownCapabilities = smp.CapTrap | smp.CapSLMapping | smp.CapSystemGUID | smp.CapClientReregister |
	smp.CapMaskNotice | smp.CapOtherChanges

// capabilities returns CapabilityMask and CapabilityMask2 of a port.
func capabilities(p *node.Port) (smp.CapMask, uint16) {
	m, m2 := smp.CapMask(p.CapMask)|ownCapabilities, uint16(0)
	if p.Link.SpeedSupported>>4 != 0 {
		m |= smp.CapExtendedSpeeds
	}
	for _, c := range [...]struct {
		has bool
		cap uint16
	}{
		{p.Link.WidthSupported&node.Width2x != 0, smp.Cap2Width2x},
		{p.Link.SpeedSupported&node.HDR != 0, smp.Cap2SpeedHDR},
		{p.Link.SpeedSupported&node.NDR != 0, smp.Cap2SpeedNDR},
	} {
		if c.has {
			m, m2 = m|smp.CapCapMask2, m2|c.cap
		}
	}
	return m, m2
}

// Capabilities returns the CapabilityMask of a port.
func Capabilities(p *node.Port) uint32 {
	m, _ := capabilities(p)
	return uint32(m)
}

// portOf returns the port that a PortInfo's modifier names. Each port of an adapter has its own M_Key: a Get of
// another port must satisfy that port's protection, and a Set can only name the port that received it.
func (a *Agent) portOf(q *request) (int, bool) {
	num := int(q.p.Modifier &^ extendedSpeeds)
	if a.node.Tables != nil {
		return num, num < len(a.node.Ports)
	}
	if num == 0 || num == q.at {
		return q.at, true
	}
	if num >= len(a.node.Ports) || q.p.Method == mad.MethodSet {
		return 0, false
	}
	k := &a.node.Ports[num].Authority
	return num, k.MKey == 0 || k.MKey == q.p.MKey || k.Protect < 2
}

func (a *Agent) getPortInfo(q *request) mad.Status {
	num, ok := a.portOf(q)
	if !ok {
		return mad.StatusInvalidField
	}
	p := &a.node.Ports[num]
	m := smp.PortInfo{LocalPort: uint8(q.at), Link: linkInfo(&p.Link), Lanes: lanesInfo(p)}
	m.Violations.LocalPhyErrors, m.Violations.OverrunErrors = a.ports[num].phyErrThreshold,
		a.ports[num].overrunThreshold
	if !a.external(num) {
		m.MKey, m.GIDPrefix = a.visibleMKey(q, num), p.Address.Prefix
		m.LID, m.MasterSMLID, m.LMC = p.Address.LID, p.Address.SMLID, p.Address.LMC
		m.Lease, m.Protect = p.Authority.Lease, p.Authority.Protect
		m.CapMask, m.CapMask2 = capabilities(p)
		m.Lanes.MasterSMSL = p.Address.SMSL
		m.Violations.MKey, m.Violations.PKey, m.Violations.QKey = p.Authority.Violations, p.Partition.PViolations,
			p.Partition.QViolations
		m.GUIDCap, m.SubnetTimeout, m.RespTime = uint8(len(p.GUIDs)), p.Address.SubnetTimeout, p.Address.RespTime
		// The response to a Set repeats ClientReregister.
		m.ClientReregister = q.reregister
	}
	return fill(q.p, m.Append(q.p.Data[:0]))
}

// linkInfo returns the link fields of PortInfo. While an extended speed is active, LinkSpeedActive is the fastest of
// the basic speeds (section 14.2.5.6).
func linkInfo(l *node.State) smp.PortLink {
	active, ext := l.SpeedActive&0xf, l.SpeedActive>>4
	if ext != 0 {
		active = node.QDR
	}
	return smp.PortLink{
		WidthEnabled: uint8(l.WidthEnabled), WidthSupported: uint8(l.WidthSupported), WidthActive: uint8(l.WidthActive),
		SpeedSupported: uint8(l.SpeedSupported & 0xf), SpeedEnabled: uint8(l.SpeedEnabled & 0xf),
		SpeedActive:       uint8(active),
		SpeedExtSupported: uint8(l.SpeedSupported >> 4), SpeedExtEnabled: uint8(l.SpeedEnabled >> 4),
		SpeedExtActive: uint8(ext),
		State:          uint8(l.Logical), PhysState: uint8(l.Physical), DownDefault: uint8(l.DownDefault),
	}
}

func lanesInfo(p *node.Port) smp.PortLanes {
	v := smp.PortLanes{NeighborMTU: p.MTU.Neighbor, MTUCap: p.MTU.Cap, Cap: smp.VLCode(int(p.Lanes.Cap)),
		OperationalVLs: smp.VLCode(int(p.Lanes.Operational)), HighLimit: p.Lanes.HighLimit, StallCount: p.Lanes.Stall,
		HOQLife: p.Lanes.HOQLife, EnforceIn: p.Partition.EnforceIn, EnforceOut: p.Partition.EnforceOut}
	if p.Lanes.Cap > 1 {
		v.ArbHighCap, v.ArbLowCap = arbitrationRows, arbitrationRows
	}
	return v
}

// setPortInfo carries out a Set on a copy of the port, which replaces the port if all fields are valid.
func (a *Agent) setPortInfo(q *request) mad.Status {
	var m smp.PortInfo
	m.Decode(q.p.Data[:])
	num, ok := a.portOf(q)
	if !ok {
		return mad.StatusInvalidField
	}
	p := a.node.Ports[num]
	switch {
	case !a.external(num) && !a.setAddress(&p, &m, num):
		return mad.StatusInvalidField
	case num > 0 && !(setWidth(&p.Link, m.Link.WidthEnabled) &&
		setSpeed(&p.Link, &m.Link, q.p.Modifier&extendedSpeeds != 0) &&
		setLanes(&p, &m.Lanes) && setState(&p.Link, &m.Link)):
		return mad.StatusInvalidField
	case num == 0 && m.Link.State != uint8(node.NoChange) && m.Link.State != uint8(p.Link.Logical):
		return mad.StatusInvalidField // port 0 has no link
	}
	if a.external(num) {
		setForwarding(a.node.Tables, &p, &m.Lanes)
	} else {
		setAuthority(&p, &m)
		q.reregister = m.ClientReregister
	}
	if num > 0 {
		a.ports[num].phyErrThreshold, a.ports[num].overrunThreshold = m.Violations.LocalPhyErrors,
			m.Violations.OverrunErrors
	}
	a.node.Ports[num] = p
	a.markChanged(num)
	return mad.StatusOK
}

// unicast reports whether a Set may assign a LID: any unicast LID, or the port's present one.
func unicast(lid, before uint16) bool {
	return lid == before || lid > 0 && lid < node.FirstMulticastLID
}

// setAddress sets the fields of ports with an address.
func (a *Agent) setAddress(p *node.Port, m *smp.PortInfo, num int) bool {
	d := &p.Address
	switch {
	case !unicast(m.LID, d.LID), !unicast(m.MasterSMLID, d.SMLID):
		return false
	case m.LID&(1<<m.LMC-1) != 0, num == 0 && m.LMC != 0: // a base port 0 has one LID
		return false
	}
	d.Prefix, d.LID, d.LMC = m.GIDPrefix, m.LID, m.LMC
	d.SMLID, d.SMSL, d.SubnetTimeout = m.MasterSMLID, m.Lanes.MasterSMSL, m.SubnetTimeout
	d.Reregister = d.Reregister || m.ClientReregister
	return true
}

// setAuthority sets the M_Key, its protection and lease, and clears the violation counters that are set to 0.
func setAuthority(p *node.Port, m *smp.PortInfo) {
	p.Authority.MKey, p.Authority.Protect, p.Authority.Lease = m.MKey, m.Protect, m.Lease
	if m.Violations.MKey == 0 {
		p.Authority.Violations = 0
	}
	if m.Violations.PKey == 0 {
		p.Partition.PViolations = 0
	}
	if m.Violations.QKey == 0 {
		p.Partition.QViolations = 0
	}
}

func setWidth(l *node.State, w uint8) bool {
	switch {
	case w == 0:
	case w == smp.WidthAll:
		l.WidthEnabled = l.WidthSupported
	case node.Width(w)&^l.WidthSupported != 0:
		return false
	default:
		l.WidthEnabled = node.Width(w)
	}
	return true
}

func setSpeed(l *node.State, m *smp.PortLink, extended bool) bool {
	slow, fast := l.SpeedEnabled&0xf, l.SpeedEnabled&^0xf
	switch s := node.Speed(m.SpeedEnabled); {
	case s == 0:
	case s == smp.SpeedAll:
		slow = l.SpeedSupported & 0xf
	case s&^l.SpeedSupported != 0:
		return false
	default:
		slow = s
	}
	switch s := m.SpeedExtEnabled; {
	case s == 0, !extended:
	case s == smp.SpeedExtAll:
		fast = l.SpeedSupported &^ 0xf
	case s == smp.SpeedExtNone:
		fast = 0
	case s > 0xf, node.Speed(s<<4)&^l.SpeedSupported != 0:
		return false
	default:
		fast = node.Speed(s << 4)
	}
	l.SpeedEnabled = slow | fast
	return true
}

func setLanes(p *node.Port, v *smp.PortLanes) bool {
	vls := smp.VLs(v.OperationalVLs)
	switch {
	case v.NeighborMTU == 0 || v.NeighborMTU > p.MTU.Cap:
		return false
	case v.OperationalVLs != 0 && (vls == 0 || vls > int(p.Lanes.Cap)):
		return false
	case vls != 0:
		p.Lanes.Operational = uint8(vls)
	}
	p.MTU.Neighbor, p.Lanes.HighLimit = v.NeighborMTU, v.HighLimit
	return true
}

// setForwarding sets the fields of external ports of switches.
func setForwarding(t *node.Tables, p *node.Port, v *smp.PortLanes) {
	p.Lanes.HOQLife, p.Lanes.Stall = v.HOQLife, v.StallCount
	if t.EnforcementCap > 0 {
		p.Partition.EnforceIn, p.Partition.EnforceOut = v.EnforceIn, v.EnforceOut
	}
}

// setState moves a port by PortState, PortPhysicalState and LinkDownDefaultState. Down comes from any
// state, Armed from Initialize and Active from Armed; a port stays in the state that it is in already.
// Everything else is refused (sections 7.2.7 and 14.2.5.6).
func setState(l *node.State, m *smp.PortLink) bool {
	switch d := node.PhysState(m.DownDefault); d {
	case 0:
	case node.PhysSleep, node.PhysPolling:
		l.DownDefault = d
	default:
		return false
	}
	want, phys := node.LinkState(m.State), node.PhysState(m.PhysState)
	switch want {
	case node.NoChange, node.Down:
		switch phys {
		case 0:
			if want == node.NoChange {
				return true
			}
			if l.Physical == node.PhysLinkUp && l.DownDefault == node.PhysPolling {
				// The link goes down and trains again, after the answer has left: it has the state in
				// which the port comes back.
				l.Logical, l.Retrain = node.Initialize, true
				return true
			}
			phys = l.DownDefault
		case node.PhysSleep, node.PhysPolling, node.PhysDisabled:
		default:
			return false
		}
		l.Logical, l.Physical = node.Down, phys
		return true
	case node.Armed:
		if l.Logical != node.Initialize && l.Logical != node.Armed {
			return false
		}
	case node.Active:
		if l.Logical != node.Armed && l.Logical != node.Active {
			return false
		}
	default:
		return false
	}
	l.Logical = want
	return phys == 0
}
