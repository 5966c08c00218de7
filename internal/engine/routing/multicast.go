// SPDX-License-Identifier: Apache-2.0

package routing

import "slices"

// Tree is a spanning tree of a graph's switches.
type Tree struct {
	root   int32
	parent []link // towards the root; port 0: the root, or a switch that is not connected to it
}

// Tree returns the spanning tree that grows from root, in the order of up/down that begins with roots:
// by links down, as far as they lead. Multicast along them waits only for channels that unicast along
// up/down paths waits for, too. Legal is whether they reach all switches with adapters; others are
// connected by any links.
func (g *Graph) Tree(root int32, roots []int32) (t *Tree, legal bool) {
	r := router{g: g, links: g.adjacency()}
	r.rank(roots)
	t = &Tree{root: root, parent: make([]link, len(g.Peers))}
	on := make([]bool, len(g.Peers))
	on[root] = true
	reached := r.grow(t, on, []int32{root}, true)
	legal = true
	down := slices.Clone(on)
	r.grow(t, on, reached, false)
	for s, n := range g.hosts() {
		legal = legal && (n == 0 || down[s] || !on[s])
	}
	return t, legal
}

// grow connects the switches that can be reached from some switches on the tree, breadth first, and
// returns all switches on it.
func (r *router) grow(t *Tree, on []bool, queue []int32, down bool) []int32 {
	for i := 0; i < len(queue); i++ {
		s := queue[i]
		for _, l := range r.links[s] {
			if on[l.to] || down && r.position[l.to] < r.position[s] {
				continue
			}
			on[l.to] = true
			queue = append(queue, l.to)
			t.parent[l.to] = link{s, r.g.Peers[s][l.port].Port}
		}
	}
	return queue
}

// Group returns the ports that a multicast group has at each switch: its members' ports, and the ports
// of the part of the tree between them. Members are ports of switches; port 0 is the switch itself. The
// switches of senders are reached, too, but their packets do not come back to their ports.
func (g *Graph) Group(t *Tree, members, senders []End) []PortSet {
	ports := make([]PortSet, len(g.Peers))
	on := make([]bool, len(g.Peers))
	local := make([]bool, len(g.Peers))
	for _, m := range members {
		ports[m.Switch].Add(m.Port)
	}
	for _, ends := range [][]End{members, senders} {
		for _, m := range ends {
			local[m.Switch] = true
			for s := m.Switch; !on[s]; {
				on[s] = true
				up := t.parent[s]
				if up.port == 0 {
					break
				}
				ports[s].Add(up.port)
				back := g.Peers[s][up.port]
				ports[back.Switch].Add(back.Port)
				s = back.Switch
			}
		}
	}
	// The tree's top is not needed where all members are below one of its branches.
	for s := t.root; on[s] && !local[s] && ports[s].Len() == 1; {
		p, _ := ports[s].First()
		ports[s].Remove(p)
		down := g.Peers[s][p]
		s = down.Switch
		ports[s].Remove(down.Port)
	}
	return ports
}
