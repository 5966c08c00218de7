// SPDX-License-Identifier: Apache-2.0

package sm

import (
	"github.com/ramjet-rdma/ramjet/internal/engine/node"
	"github.com/ramjet-rdma/ramjet/wire/ib"
)

// Membership is a port's membership in a partition (section 10.9.1).
type Membership uint8

const (
	NoMember Membership = iota
	LimitedMember
	FullMember // communicates with limited members, too
)

// Partition is a set of ports that may communicate. For ports that are not in Members, the node type decides.
type Partition struct {
	Name    string                // may be empty
	PKey    ib.PKey               // 15 bits; the membership bit is ignored
	Members map[uint64]Membership // by port GUID
	All     Membership            // of all ports
	// Adapters, Switches and Routers replace All for their ports if they grant more.
	Adapters, Switches, Routers Membership
	Self                        Membership // of the manager's own port
	// IPoIB makes the manager create the partition's broadcast group, as for the default partition.
	IPoIB bool
}

// defaultPartition is the partition of all ports, by which they reach the administrator.
const defaultPartition ib.PKey = 0x7fff

// of returns the membership of a port in the partition.
func (c *Partition) of(p *port, own bool) Membership {
	m, named := c.Members[p.guid]
	if !named {
		m = c.All
		switch node.Type(p.dev.info.NodeType) {
		case node.CA:
			m = max(m, c.Adapters)
		case node.Switch:
			m = max(m, c.Switches)
		case node.Router:
			m = max(m, c.Routers)
		}
	}
	if own {
		m = max(m, c.Self)
	}
	return m
}

// pkeys returns the partition table of a port with a LID. The default partition's key comes first. If
// partitions are configured, but not that one, ports are limited members of it: they can only communicate with the
// manager.
func (m *Manager) pkeys(p *port) []ib.PKey {
	own := p.guid == m.config.PortGUID
	basic := FullMember
	if len(m.config.Partitions) > 0 && !own {
		basic = LimitedMember
	}
	keys := []ib.PKey{0}
	for i := range m.config.Partitions {
		c := &m.config.Partitions[i]
		switch is := c.of(p, own); {
		case c.PKey.Base() == defaultPartition:
			basic = max(basic, is)
		case is != NoMember:
			keys = append(keys, keyOf(c.PKey, is))
		}
	}
	keys[0] = keyOf(defaultPartition, basic)
	return keys
}

func keyOf(k ib.PKey, m Membership) ib.PKey {
	if m == FullMember {
		return k.Full()
	}
	return k.Base()
}
