// SPDX-License-Identifier: Apache-2.0

package node

import "github.com/ramjet-rdma/ramjet/wire/ib"

// Spec holds the properties of a port that is to be built.
type Spec struct {
	Width Width // supported, a set
	Speed Speed // supported, a set
	MTU   uint8 // code; 5 is 4096 bytes
	VLs   uint8 // data VLs: 1, 2, 4, 8 or 15
	PKeys int   // rows of the partition table
	GUIDs int   // rows of the GID table
}

// DefaultSpec is a port of 4X EDR with eight lanes.
var DefaultSpec = Spec{Width: Width1x | Width4x, Speed: SDR | DDR | QDR | FDR | EDR, MTU: 5, VLs: 8, PKeys: 32,
	GUIDs: 8}

// New returns a node with external ports as they are before a subnet manager comes: down, without
// LIDs, all in the default partition. A channel adapter's ports have the GUIDs that follow the node's.
func New(t Type, guid uint64, description string, ports int, s Spec) *Node {
	n := &Node{Type: t, GUID: guid, SystemGUID: guid, Description: description, Ports: make([]Port, ports+1)}
	for i := range n.Ports {
		n.Ports[i].init(n, i, &s)
	}
	if t == Switch {
		n.Tables = &Tables{Linear: make([]uint8, int(FirstMulticastLID)), Multicast: make([][4]uint64, 1024),
			LifeTime: 20, PrimaryMulticast: NoRoute, NotPrimaryMulticast: NoRoute, EnforcementCap: uint16(s.PKeys)}
		for i := range n.Tables.Linear {
			n.Tables.Linear[i] = NoRoute
		}
	}
	return n
}

func (p *Port) init(n *Node, num int, s *Spec) {
	p.Link = State{Logical: Down, Physical: PhysPolling, DownDefault: PhysPolling,
		WidthSupported: s.Width, WidthEnabled: s.Width, SpeedSupported: s.Speed, SpeedEnabled: s.Speed}
	p.MTU = MTU{Cap: s.MTU, Neighbor: s.MTU}
	p.Address.Prefix = 0xfe80_0000_0000_0000
	p.Address.SubnetTimeout = 18
	p.Address.RespTime = 16 // 268 ms
	p.Lanes = Lanes{Cap: s.VLs, Operational: 1, HOQLife: 20, Low: []ArbEntry{{0, 1}},
		SLtoVL: make([][ServiceLevels]uint8, 1)}
	p.Partition.PKeys = make([]ib.PKey, s.PKeys)
	p.Partition.PKeys[0] = ib.DefaultPKey
	if n.Type == Switch {
		p.Lanes.SLtoVL = make([][ServiceLevels]uint8, len(n.Ports))
		if num > 0 {
			return
		}
		p.GUID = n.GUID
		p.Link.Logical, p.Link.Physical = Active, PhysLinkUp // port 0 has no link
		p.Link.WidthActive, p.Link.SpeedActive = s.Width.Widest(), s.Speed.Fastest()
	} else {
		p.GUID = n.GUID + uint64(num)
	}
	p.GUIDs = make([]uint64, s.GUIDs)
	p.GUIDs[0] = p.GUID
}
