// SPDX-License-Identifier: Apache-2.0

package routing

import "math/bits"

// PortSet is a set of a switch's ports, as multicast forwarding tables have it.
type PortSet [4]uint64

// Has reports whether port p is in the set.
func (s *PortSet) Has(p uint8) bool { return s[p/64]&(1<<(p%64)) != 0 }

// Add adds port p.
func (s *PortSet) Add(p uint8) { s[p/64] |= 1 << (p % 64) }

// Remove takes port p away.
func (s *PortSet) Remove(p uint8) { s[p/64] &^= 1 << (p % 64) }

// Len returns how many ports are in the set.
func (s *PortSet) Len() int {
	return bits.OnesCount64(s[0]) + bits.OnesCount64(s[1]) + bits.OnesCount64(s[2]) + bits.OnesCount64(s[3])
}

// First returns the lowest port of the set; false: it is empty.
func (s *PortSet) First() (uint8, bool) {
	for i, w := range s {
		if w != 0 {
			return uint8(i*64 + bits.TrailingZeros64(w)), true
		}
	}
	return 0, false
}

// CreditLoop returns channels that may wait for each other in a circle, each named by the port that
// feeds it, or nil if there is no such circle. It counts packets from adapters to all LIDs, packets from
// switches to adapters, and multicast along the groups' ports, by switch. Datagrams from switch to switch
// are not counted.
func (g *Graph) CreditLoop(t Tables, groups [][]PortSet) []End {
	d := dependencies{g: g, after: make([][]PortSet, len(g.Peers))}
	for s := range d.after {
		d.after[s] = make([]PortSet, len(g.Peers[s]))
	}
	hosts := g.hosts()
	seen := make([]int32, len(g.Peers))
	for i, e := range g.Endpoints {
		for s := range g.Peers {
			if e.At.Port == 0 && hosts[s] == 0 {
				continue
			}
			d.addPath(t, int32(s), e, seen, int32(i+1))
		}
	}
	for _, group := range groups {
		d.addGroup(group)
	}
	return d.cycle()
}

// dependencies has, for each switch and input port, the output ports that packets leave through which
// came in there; only ports to other switches count.
type dependencies struct {
	g     *Graph
	after [][]PortSet
	color [][]uint8
}

// addPath adds the channels that a packet from switch s to e passes. Seen has mark where a path to e has been.
func (d *dependencies) addPath(t Tables, s int32, e Endpoint, seen []int32, mark int32) {
	in := uint8(0)
	for {
		port, to, ok := d.g.Next(t, s, e.LID)
		if !ok || to.Switch < 0 {
			return
		}
		if in != 0 {
			d.after[s][in].Add(port)
		}
		if seen[s] == mark {
			return
		}
		seen[s] = mark
		s, in = to.Switch, to.Port
	}
}

// addGroup adds the channels that a multicast packet passes: it leaves through all ports of the group but
// the port of its arrival.
func (d *dependencies) addGroup(group []PortSet) {
	for s := range group {
		var out PortSet
		for p, e := range d.g.Peers[s] {
			if e.Switch >= 0 && group[s].Has(uint8(p)) {
				out.Add(uint8(p))
			}
		}
		for p := range d.g.Peers[s] {
			if !out.Has(uint8(p)) {
				continue
			}
			for q := range d.g.Peers[s] {
				if q != p && out.Has(uint8(q)) {
					d.after[s][p].Add(uint8(q))
				}
			}
		}
	}
}

const (
	white = iota // not visited
	grey         // on the path that is being followed
	black        // known to be in no cycle
)

// cycle looks for a cycle by following dependencies depth first.
func (d *dependencies) cycle() []End {
	d.color = make([][]uint8, len(d.g.Peers))
	for s := range d.color {
		d.color[s] = make([]uint8, len(d.g.Peers[s]))
	}
	type step struct {
		channel End     // packets on it
		rest    PortSet // channels after it that are still to be followed
		at      int32   // the switch that the channel ends at
	}
	var path []step
	enter := func(c End) {
		to := d.g.Peers[c.Switch][c.Port]
		d.color[c.Switch][c.Port] = grey
		path = append(path, step{c, d.after[to.Switch][to.Port], to.Switch})
	}
	for s := range d.g.Peers {
		for p, e := range d.g.Peers[s] {
			if e.Switch < 0 || d.color[s][p] != white {
				continue
			}
			enter(End{int32(s), uint8(p)})
			for len(path) > 0 {
				top := &path[len(path)-1]
				q, ok := top.rest.First()
				if !ok {
					d.color[top.channel.Switch][top.channel.Port] = black
					path = path[:len(path)-1]
					continue
				}
				top.rest.Remove(q)
				next := End{top.at, q}
				switch d.color[next.Switch][next.Port] {
				case white:
					enter(next)
				case grey:
					var loop []End
					for i := len(path) - 1; ; i-- {
						loop = append([]End{path[i].channel}, loop...)
						if path[i].channel == next {
							return loop
						}
					}
				}
			}
		}
	}
	return nil
}
