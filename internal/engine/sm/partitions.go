// SPDX-License-Identifier: Apache-2.0

package sm

import (
	"github.com/ramjet-rdma/ramjet/internal/engine/node"
	"github.com/ramjet-rdma/ramjet/wire/ib"
)

// Membership is what a port is in a partition (section 10.9.1).
type Membership uint8

const (
	NoMember Membership = iota
	LimitedMember
	FullMember // talks to limited members, too
)

// Partition is a set of ports that may talk to each other. Ports that Members does not have are members
// by what they are.
type Partition struct {
	Name    string                // for people; may be empty
	PKey    ib.PKey               // 15 bits; the membership bit does not count
	Members map[uint64]Membership // by the ports' GUIDs
	All     Membership            // of all ports
	// Adapters, Switches and Routers count for their ports instead of All if they are more.
	Adapters, Switches, Routers Membership
	Self                        Membership // of the manager's own port
	// IPoIB creates the partition's broadcast group at once, as for the default partition.
	IPoIB bool
}

// defaultPartition has all ports as members: they reach the administrator by it.
const defaultPartition = ib.DefaultPKey & 0x7fff

// of returns what a port is in the partition.
func (c *Partition) of(p *port, own bool) Membership {
	m, said := c.Members[p.guid]
	if !said {
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

// pkeys returns the partition table of a port with a LID. The default partition's key comes first. Where
// partitions are configured, but not that one, ports are limited members there: they talk to the manager
// only.
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
		case c.PKey&0x7fff == defaultPartition:
			basic = max(basic, is)
		case is != NoMember:
			keys = append(keys, keyOf(c.PKey, is))
		}
	}
	keys[0] = keyOf(defaultPartition, basic)
	return keys
}

func keyOf(k ib.PKey, m Membership) ib.PKey {
	k &= 0x7fff
	if m == FullMember {
		k |= 0x8000
	}
	return k
}
