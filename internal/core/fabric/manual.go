package fabric

import "github.com/ramjet-rdma/ramjet/internal/engine/node"

func (f *Fabric) Manual() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i, m := range f.members {
		if m.state.Type != node.CA {
			continue
		}
		p := &m.state.Ports[1]
		p.Address.LID = uint16(i + 10)
		p.Address.SMLID = 1
		peer := m.node.Port(1).Peer()
		sw := peer.Node().State()
		sw.Tables.Linear[p.Address.LID] = uint8(peer.Num())
		sw.Tables.Top = 1000
		p.Link.Logical = node.Active
		sw.Ports[peer.Num()].Link.Logical = node.Active
		m.state.Changed(1)
		sw.Changed(peer.Num())
	}
	f.step()
}
