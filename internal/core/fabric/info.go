// SPDX-License-Identifier: Apache-2.0

package fabric

import (
	"encoding/binary"
	"net/netip"
	"slices"

	"github.com/ramjet-rdma/ramjet/internal/engine/node"
	"github.com/ramjet-rdma/ramjet/internal/engine/sma"
	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/wire/ib"
	"github.com/ramjet-rdma/ramjet/wire/mad/smp"
)

// Info is the state of a port, as an adapter's driver reads it.
type Info struct {
	State         node.LinkState
	Physical      node.PhysState
	Width         node.Width
	Speed         node.Speed
	LID           uint16
	LMC           uint8
	SMLID         uint16
	SMSL          uint8
	SubnetTimeout uint8
	CapMask       uint32
	MaxMTU        uint8 // code
	MTU           uint8 // code, set by the subnet manager
	VLs           uint8
	GIDs          []ib.GID
	PKeys         []ib.PKey
	Reregister    bool
	Mbps          int64
}

func infoOf(n *node.Node, port int) *Info {
	p := &n.Ports[port]
	i := &Info{State: p.Link.Logical, Physical: p.Link.Physical, Width: p.Link.WidthActive, Speed: p.Link.SpeedActive,
		LID: p.Address.LID, LMC: p.Address.LMC, SMLID: p.Address.SMLID, SMSL: p.Address.SMSL,
		SubnetTimeout: p.Address.SubnetTimeout, CapMask: sma.Capabilities(p), MaxMTU: p.MTU.Cap, MTU: p.MTU.Neighbor,
		VLs:        p.Lanes.Cap,
		PKeys:      slices.Clone(p.Partition.PKeys),
		Reregister: p.Address.Reregister, Mbps: p.Link.RateMbps()}
	for _, guid := range p.GUIDs {
		if guid == 0 {
			break
		}
		i.GIDs = append(i.GIDs, gidOf(p.Address.Prefix, guid))
	}
	return i
}

// gidOf returns the GID of a prefix and an interface id.
func gidOf(prefix, guid uint64) (g ib.GID) {
	binary.BigEndian.PutUint64(g[:], prefix)
	binary.BigEndian.PutUint64(g[8:], guid)
	return g
}

// eventsOf returns the asynchronous events for a change of a port (section 11.6.3).
func eventsOf(from, to *Info) (e []verbs.EventType) {
	if to.State == node.Active && from.State != node.Active {
		e = append(e, verbs.EventPortActive)
	}
	if from.State == node.Active && to.State != node.Active {
		e = append(e, verbs.EventPortError)
	}
	if from.LID != to.LID || from.LMC != to.LMC {
		e = append(e, verbs.EventLIDChange)
	}
	if from.SMLID != to.SMLID || from.SMSL != to.SMSL {
		e = append(e, verbs.EventSMChange)
	}
	if !slices.Equal(from.PKeys, to.PKeys) {
		e = append(e, verbs.EventPKeyChange)
	}
	if !slices.Equal(from.GIDs, to.GIDs) {
		e = append(e, verbs.EventGIDChange)
	}
	if to.Reregister {
		e = append(e, verbs.EventClientReregister)
	}
	return e
}

// portChange is a change of a port that the goroutine reports to an attachment's driver.
type portChange struct {
	attachment *Attachment
	port       int
	events     []verbs.EventType
}

// publish publishes the new state of a port to its attachments, and queues the events of the change.
func (m *member) publish(f *Fabric, port int) {
	for _, s := range m.attachments {
		if s == nil || port == 0 {
			continue
		}
		now := infoOf(m.state, port)
		before := s.infos[port].Swap(now)
		f.portChanges = append(f.portChanges, portChange{s, port, eventsOf(before, now)})
	}
	m.state.Ports[port].Address.Reregister = false // reported
}

// address is the IP address of an adapter; the zero value if the node is none.
type address struct{ ip netip.Addr }

// Addr returns the adapter's IP address.
func (s *Attachment) Addr() netip.Addr { return s.m.addr.ip }

// Neighbors returns the GIDs of the adapters' first ports by their IP addresses.
func (f *Fabric) Neighbors() map[netip.Addr]ib.GID {
	f.mu.Lock()
	defer f.mu.Unlock()
	all := make(map[netip.Addr]ib.GID)
	for _, m := range f.members {
		if m.addr.ip.IsValid() && len(m.state.Ports) > 1 {
			p := &m.state.Ports[1]
			all[m.addr.ip] = gidOf(p.Address.Prefix, p.GUID)
		}
	}
	return all
}

// Neighbor returns the GID of the first port of the adapter with an IP address.
func (s *Attachment) Neighbor(a netip.Addr) (ib.GID, bool) {
	s.f.mu.Lock()
	defer s.f.mu.Unlock()
	for _, m := range s.f.members {
		if m.addr.ip == a && len(m.state.Ports) > 1 {
			p := &m.state.Ports[1]
			return gidOf(p.Address.Prefix, p.GUID), true
		}
	}
	return ib.GID{}, false
}

// managerPort is the port at which a program's subnet manager runs.
const managerPort = 1

// setSM sets or clears IsSM of an adapter's port, and has the agent report that to the master subnet manager
// (IBTA 14.4.1, trap 144).
func (m *member) setSM(f *Fabric, on bool) {
	p := &m.state.Ports[managerPort]
	p.CapMask &^= uint32(smp.CapSM)
	if on {
		p.CapMask |= uint32(smp.CapSM)
	}
	m.agent.LocalChanged(f.now(), managerPort, 0)
	f.net.AgentDue(m.node)
	f.step()
}
