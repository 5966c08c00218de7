// SPDX-License-Identifier: Apache-2.0

package fabric

import (
	"cmp"
	"math/bits"
	"slices"

	"github.com/ramjet-rdma/ramjet/internal/engine/link"
	"github.com/ramjet-rdma/ramjet/internal/engine/node"
	"github.com/ramjet-rdma/ramjet/wire/ib"
)

// View is a snapshot of the fabric.
type View struct {
	Nodes  []NodeView
	Cables []CableView
}

// NodeView is a node at the time of the snapshot.
type NodeView struct {
	Name     string
	Type     node.Type
	GUID     uint64
	Text     string // NodeDescription
	LID      uint16 // of a switch; an adapter's are in Ports
	Off      bool
	IP       string // an adapter's address
	Programs int    `json:"Seats"` // programs attached to an adapter
	// Dropped counts packets for programs at an adapter that had received nothing for a second.
	Dropped uint64
	Ports   []PortView
}

// PortView is an external port.
type PortView struct {
	Number   int
	GUID     uint64
	GID      ib.GID // of an adapter's port
	LID      uint16
	State    node.LinkState
	Width    node.Width
	Speed    node.Speed
	Mbps     int64
	Held     []int  // lanes whose credits are withheld
	Remote   string // the other end of a cable to another process; empty: none
	Pulled   bool   // that cable is an adapter's, and was pulled: Relink plugs it in again
	Counters node.Counters
}

// Adapter reports whether the node is a channel adapter.
func (n *NodeView) Adapter() bool { return n.Type == node.CA }

// Active reports whether the port is active.
func (p *PortView) Active() bool { return p.State == node.Active }

// CableView is a cable.
type CableView struct {
	A, B      End
	ErrorRate float64
}

// View returns a snapshot of the fabric.
func (f *Fabric) View() *View {
	f.mu.Lock()
	defer f.mu.Unlock()
	v := &View{}
	for _, m := range f.members {
		v.Nodes = append(v.Nodes, f.viewOf(m))
		for num := 1; num < len(m.state.Ports); num++ {
			p := m.node.Port(num)
			c := p.Cable()
			if c == nil {
				continue
			}
			if a, b := c.Ports(); a == p {
				v.Cables = append(v.Cables, CableView{End{m.name, num}, End{f.memberOf[b.Node()].name, b.Num()},
					f.errors[c]})
			}
		}
	}
	slices.SortFunc(v.Cables, func(a, b CableView) int {
		return cmp.Or(cmp.Compare(a.A.Node, b.A.Node), cmp.Compare(a.A.Port, b.A.Port))
	})
	return v
}

func (f *Fabric) viewOf(m *member) NodeView {
	f.net.CountWaits(f.now(), m.node)
	n := NodeView{Name: m.name, Type: m.state.Type, GUID: m.state.GUID, Text: m.state.Description,
		LID: m.state.Ports[0].Address.LID, Off: m.off, Dropped: m.dropped}
	if m.addr.ip.IsValid() {
		n.IP = m.addr.ip.String()
	}
	for _, s := range m.attachments {
		if s != nil {
			n.Programs++
		}
	}
	for num := 1; num < len(m.state.Ports); num++ {
		p := &m.state.Ports[num]
		gid := ib.GID{}
		if m.state.Type == node.CA {
			gid = gidOf(p.Address.Prefix, p.GUID)
		}
		far := ""
		if r := f.remotes[m.node.Port(num)]; r != nil {
			far = r.farEnd
		}
		n.Ports = append(n.Ports, PortView{Remote: far, GID: gid, Number: num, GUID: p.GUID, LID: p.Address.LID,
			State: p.Link.Logical, Width: p.Link.WidthActive,
			Speed: p.Link.SpeedActive, Mbps: p.Link.RateMbps(), Held: m.node.Port(num).HeldLanes(),
			Counters: p.Counters})
	}
	return n
}

// GroupPorts returns how many ports of a switch a multicast LID is forwarded to.
func (f *Fabric) GroupPorts(name string, lid uint16) (n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	m, err := f.member(name)
	i := int(lid) - int(node.FirstMulticastLID)
	if err != nil || m.state.Tables == nil || i < 0 || i >= len(m.state.Tables.Multicast) {
		return 0
	}
	for _, word := range m.state.Tables.Multicast[i] {
		n += bits.OnesCount64(word)
	}
	return n
}

// Route returns the output ports of a packet's path from one adapter port to another, in order, by the current
// forwarding tables. arrives is false if the packet gets no further than the last of them.
func (f *Fabric) Route(from, to End) (hops []End, arrives bool, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	_, p, err := f.port(from)
	if err != nil {
		return nil, false, err
	}
	_, q, err := f.port(to)
	if err != nil {
		return nil, false, err
	}
	lid := q.State().Address.LID
	return f.walk(p, q, lid)
}

// walk follows the forwarding tables from one port to another.
func (f *Fabric) walk(p, q *link.Port, lid uint16) (hops []End, arrives bool, err error) {
	for range len(f.members) {
		if lid == 0 || p.State().Link.Logical != node.Active {
			return hops, false, nil
		}
		hops = append(hops, End{f.memberOf[p.Node()].name, p.Num()})
		next := p.Peer()
		switch {
		case next == q:
			return hops, true, nil
		case next == nil || next.Node().State().Tables == nil:
			return hops, false, nil
		}
		t := next.Node().State().Tables
		if int(lid) >= len(t.Linear) || lid > t.Top {
			return hops, false, nil
		}
		out := t.Linear[lid]
		if out == 0 || int(out) >= len(next.Node().State().Ports) {
			return hops, false, nil
		}
		p = next.Node().Port(int(out))
	}
	return hops, false, nil // a loop
}

// Active reports whether all ports with cables between powered nodes are active, and the built-in manager is
// idle.
func (f *Fabric) Active() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.manager != nil && f.manager.engine.Busy() {
		return false
	}
	for _, m := range f.members {
		for num := 1; num < len(m.state.Ports) && !m.off; num++ {
			p := m.node.Port(num)
			if r := f.remotes[p]; r != nil && r.linked() && p.State().Link.Logical != node.Active {
				return false
			}
			if peer := p.Peer(); peer != nil && !f.memberOf[peer.Node()].off && p.State().Link.Logical != node.Active {
				return false
			}
		}
	}
	return true
}
