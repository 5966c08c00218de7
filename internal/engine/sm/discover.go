// SPDX-License-Identifier: Apache-2.0

package sm

import (
	"fmt"

	"github.com/ramjet-rdma/ramjet/internal/base/clock"
	"github.com/ramjet-rdma/ramjet/internal/engine/node"
	"github.com/ramjet-rdma/ramjet/wire/mad"
	"github.com/ramjet-rdma/ramjet/wire/mad/smp"
)

// startSweep begins to find all nodes, from the manager's own on.
func (m *Manager) startSweep(now clock.Time) {
	m.next = &fabric{byGUID: make(map[uint64]*device), byPortGUID: make(map[uint64]*port)}
	m.phase = discover
	m.sweep.heavyAt, m.sweep.lightAt, m.sweep.failures = 0, 0, 0
	m.actCount++
	m.enqueue(request{purpose: discovering, method: mad.MethodGet, attribute: smp.AttrNodeInfo})
}

// startLight starts a light sweep: it polls all switches, its own port and the other managers for changes.
func (m *Manager) startLight() {
	m.phase = light
	m.actCount++
	m.sweep.lightAt = 0
	for _, d := range m.fabric.switches {
		m.enqueue(request{purpose: probing, method: mad.MethodGet, attribute: smp.AttrSwitchInfo, dev: d, path: d.path})
	}
	own := m.fabric.own
	m.enqueue(request{purpose: probing, method: mad.MethodGet, attribute: smp.AttrPortInfo, modifier: uint32(own.num),
		dev: own.dev, port: own, path: own.path})
	for _, o := range m.fabric.managers {
		m.enqueue(request{purpose: probing, method: mad.MethodGet, attribute: smp.AttrSMInfo, dev: o.port.dev,
			port: o.port, path: o.port.path})
	}
}

func (m *Manager) probed(now clock.Time, r *request, p *smp.SMP) {
	switch r.attribute {
	case smp.AttrSwitchInfo:
		var s smp.SwitchInfo
		s.Decode(p.Data[:])
		if s.PortStateChange || s.LinearTop != r.dev.programmed.lftTop {
			m.changed(now)
		}
	case smp.AttrPortInfo:
		var i smp.PortInfo
		i.Decode(p.Data[:])
		if i.Link.State != r.port.info.Link.State || i.LID != r.port.lid {
			m.changed(now)
		}
	case smp.AttrSMInfo:
		var i smp.SMInfo
		i.Decode(p.Data[:])
		if m.trusts(&i) && (m.outranks(&i) && i.State == smp.SMStandby || i.State == smp.SMMaster) {
			m.changed(now)
		}
	}
}

// discovered handles an attribute of a node.
func (m *Manager) discovered(r *request, p *smp.SMP) {
	f := m.next
	switch r.attribute {
	case smp.AttrNodeInfo:
		var i smp.NodeInfo
		i.Decode(p.Data[:])
		m.foundNode(r, &i)
	case smp.AttrNodeDescription:
		r.dev.desc.Decode(p.Data[:])
	case smp.AttrSwitchInfo:
		d := r.dev
		d.sw.Decode(p.Data[:])
		switch {
		case r.method == mad.MethodSet || !d.sw.PortStateChange:
		case m.role != smp.SMMaster:
			m.sweep.again = true // the master clears it; if that will be this manager, in another sweep
		default:
			// Clear it before the ports are read, so that no later change is lost.
			set := request{purpose: discovering, method: mad.MethodSet, attribute: smp.AttrSwitchInfo, dev: d,
				path: d.path}
			d.sw.Append(set.data[:0])
			m.enqueue(set)
			return
		}
		for n := range d.ports {
			m.askPort(&d.ports[n], d.path)
		}
	case smp.AttrPortInfo:
		r.port.info.Decode(p.Data[:])
		m.foundPort(r.port)
	case smp.AttrSMInfo:
		var i smp.SMInfo
		i.Decode(p.Data[:])
		f.managers = append(f.managers, &otherManager{r.port, i})
	}
}

func (m *Manager) askPort(p *port, path []uint8) {
	p.path = path
	m.enqueue(request{purpose: discovering, method: mad.MethodGet, attribute: smp.AttrPortInfo, modifier: uint32(p.num),
		dev: p.dev, port: p, path: path})
}

// foundNode handles the node at the end of a path: a new one, or another path to a known one.
func (m *Manager) foundNode(r *request, i *smp.NodeInfo) {
	f := m.next
	if i.NodeGUID == 0 || i.NumPorts == 0 || i.LocalPort > i.NumPorts ||
		i.LocalPort == 0 && node.Type(i.NodeType) != node.Switch {
		m.Counters.Malformed++
		m.notDiscovered(r)
		return
	}
	d := f.byGUID[i.NodeGUID]
	if d == nil {
		if len(f.devices) >= m.config.Limits.Nodes {
			if !m.sweep.full {
				m.sweep.full = true
				m.emit(Event{Kind: TooManyNodes, Count: m.config.Limits.Nodes})
			}
			return
		}
		d = &device{info: *i, path: r.path, ports: make([]port, int(i.NumPorts)+1)}
		for n := range d.ports {
			d.ports[n] = port{dev: d, num: uint8(n)}
		}
		f.devices, f.byGUID[i.NodeGUID] = append(f.devices, d), d
		m.enqueue(request{purpose: discovering, method: mad.MethodGet, attribute: smp.AttrNodeDescription, dev: d,
			path: r.path})
		if d.isSwitch() {
			m.enqueue(request{purpose: discovering, method: mad.MethodGet, attribute: smp.AttrSwitchInfo, dev: d,
				path: r.path})
		}
	}
	if d.isSwitch() != (node.Type(i.NodeType) == node.Switch) || int(i.LocalPort) >= len(d.ports) {
		m.Counters.Malformed++
		m.notDiscovered(r)
		return
	}
	p := &d.ports[i.LocalPort]
	if d.isSwitch() {
		d.ports[0].guid = i.PortGUID
	} else if p.path == nil && p.guid == 0 {
		p.guid = i.PortGUID
		m.askPort(p, r.path)
	}
	if r.via != nil {
		r.via.peer = p // excludeInconsistent checks that the reverse holds
	} else {
		f.own = p
		if d.isSwitch() {
			f.own = &d.ports[0]
		}
	}
}

// foundPort continues discovery behind a port.
func (m *Manager) foundPort(p *port) {
	f := m.next
	p.known = true
	if p.hasLID() && p.info.CapMask&smp.CapSM != 0 && p != f.own {
		m.enqueue(request{purpose: discovering, method: mad.MethodGet, attribute: smp.AttrSMInfo, dev: p.dev, port: p,
			path: p.path})
	}
	through := p == f.own && !p.dev.isSwitch() || p.dev.isSwitch() && p.num != 0
	if !through || p.state() < node.Initialize || len(p.path) >= smp.MaxHops {
		return
	}
	path := append(p.path[:len(p.path):len(p.path)], p.num)
	m.enqueue(request{purpose: discovering, method: mad.MethodGet, attribute: smp.AttrNodeInfo, via: p, path: path})
}

// notDiscovered records that a node does not answer, or not validly.
func (m *Manager) notDiscovered(r *request) {
	if r.attribute == smp.AttrSMInfo {
		return // IsSM may still be set for a manager that has just ended
	}
	m.sweep.failures++
	switch {
	case r.dev != nil:
		if !r.dev.unresponsive {
			m.emit(nodeEvent(Unresponsive, r.dev, r.portNum()))
		}
		r.dev.unresponsive = true
	case r.via != nil:
		r.via.peerUnresponsive = true
		m.emit(nodeEvent(Unresponsive, r.via.dev, r.via.num))
	}
}

// discoveryDone checks the nodes and links that were found, elects the master, and starts to configure the subnet if
// that is this manager.
func (m *Manager) discoveryDone(now clock.Time) {
	f := m.next
	m.phase = idle
	if f.own == nil || !f.own.known || f.own.dev.unresponsive {
		m.sweepFailed(now)
		return
	}
	m.excludeInconsistent(f)
	if !m.elect(now) {
		return
	}
	m.reportChanges(f)
	m.inherit(f)
	m.assignLIDs(f)
	m.route(f)
	m.phase = tables
	m.setTables()
}

// excludeInconsistent excludes ports whose links contradict themselves, and nodes that cannot be reached then. The
// peer of a switch port must have that port as its own peer. Nodes with the same GUID look like one node during
// discovery; this check detects them.
func (m *Manager) excludeInconsistent(f *fabric) {
	taken := make(map[*port]*port) // adapter port to the switch port before it
	for _, d := range f.devices {
		for n := range d.ports {
			a := &d.ports[n]
			b := a.peer
			if b == nil {
				continue
			}
			switch {
			case d.unresponsive || b.dev.unresponsive || a == b:
				a.excluded = true
			case !b.dev.isSwitch() && b != f.own:
				if taken[b] != nil {
					a.excluded, f.ambiguous = true, true
					m.sweep.failures++
					m.emit(duplicateEvent(b, a))
					continue
				}
				taken[b] = a
			case b.peer != a:
				a.excluded, f.ambiguous = true, true
				m.sweep.failures++
				if b.peer != nil {
					m.emit(duplicateEvent(b, a))
				} else {
					m.emit(nodeEvent(Inconsistent, d, a.num))
				}
			}
		}
	}
	for b, a := range taken {
		b.peer = a
	}
	m.keepReachable(f)
	for _, d := range f.devices {
		for n := range d.ports {
			p := &d.ports[n]
			if !p.hasLID() || !p.known {
				continue
			}
			if other := f.byPortGUID[p.guid]; other != nil {
				f.ambiguous = true
				m.sweep.failures++
				m.emit(duplicateEvent(other, p))
				p.excluded, p.guid = true, 0
				continue
			}
			f.byPortGUID[p.guid] = p
		}
	}
}

// duplicateEvent returns an event about a GUID that was also found at the port second, or behind it.
func duplicateEvent(b, second *port) Event {
	e := nodeEvent(DuplicateGUID, b.dev, second.num)
	e.Text = fmt.Sprintf("%q", second.dev.desc.String())
	return e
}

// keepReachable removes the nodes that have no path to the manager's node without excluded ports.
func (m *Manager) keepReachable(f *fabric) {
	own := f.own.dev
	seen := map[*device]bool{own: true}
	kept := []*device{own}
	for i := 0; i < len(kept); i++ {
		d := kept[i]
		if !d.isSwitch() && d != own {
			continue
		}
		for n := range d.ports {
			if p := &d.ports[n]; p.linked() && !seen[p.peer.dev] {
				seen[p.peer.dev] = true
				kept = append(kept, p.peer.dev)
			}
		}
	}
	for _, d := range f.devices {
		if !seen[d] {
			delete(f.byGUID, d.info.NodeGUID)
			for n := range d.ports {
				d.ports[n].excluded = true
			}
		}
	}
	f.devices = kept
}

// sweepFailed schedules another sweep, because the manager's own node does not answer.
func (m *Manager) sweepFailed(now clock.Time) {
	m.sweep.failures++
	m.next = nil
	m.emit(Event{Kind: SweepFailed, Count: m.sweep.failures})
	m.scheduleRetry(now)
}
