// SPDX-License-Identifier: Apache-2.0

package routing

import "fmt"

// Algorithm is how unicast routes are found.
type Algorithm uint8

const (
	// Auto takes shortest paths if they have no credit loop, or else up/down: from the switches that are
	// farthest from the adapters, as the spines of a tree are, or if that is not enough from the center.
	Auto Algorithm = iota
	MinHop
	UpDown
)

var algorithms = [...]string{"auto", "min-hop", "up/down"}

func (a Algorithm) String() string {
	if int(a) < len(algorithms) {
		return algorithms[a]
	}
	return fmt.Sprintf("algorithm %d", uint8(a))
}

// Routes are a subnet's routes.
type Routes struct {
	Tables Tables
	Used   Algorithm // the choice of [Auto]
	Roots  []int32   // the uppermost switches
	Trees  []*Tree   // for multicast groups to be spread over
	Loop   []End     // channels that wait for each other in a circle; nil: there are none
}

// Route finds routes for all endpoints, and trees for multicast groups of adapters. Both together have
// no credit loop, except with [MinHop]: then Routes.Loop has it.
func (g *Graph) Route(a Algorithm) Routes {
	if len(g.Peers) == 0 {
		return Routes{}
	}
	spines, centers := g.Spines(), g.centers()
	var r Routes
	for _, roots := range [][]int32{spines, centers} {
		if a != UpDown {
			r = Routes{Tables: g.MinHop(), Used: MinHop, Roots: roots}
			if r.finish(g); a == MinHop && len(r.Trees) > 0 || r.Loop == nil && len(r.Trees) > 0 {
				return r
			}
		}
		if a != MinHop {
			r = Routes{Used: UpDown, Roots: roots}
			var legal bool
			r.Tables, legal = g.UpDown(roots)
			if r.finish(g); legal && r.Loop == nil && len(r.Trees) > 0 {
				return r
			}
		}
	}
	return r
}

// finish grows the trees and looks for credit loops.
func (r *Routes) finish(g *Graph) {
	var adapters []End
	for _, e := range g.Endpoints {
		if e.At.Port != 0 {
			adapters = append(adapters, e.At)
		}
	}
	var groups [][]PortSet
	for _, root := range r.Roots {
		if t, legal := g.Tree(root, r.Roots); legal {
			r.Trees = append(r.Trees, t)
			groups = append(groups, g.Group(t, adapters, nil))
		}
	}
	r.Loop = g.CreditLoop(r.Tables, groups)
}

// Spines returns the switches that are farthest from adapters; if all have adapters, the graph's
// center. A graph in several parts has at least one root in each.
func (g *Graph) Spines() []int32 {
	links := g.adjacency()
	var leaves []int32
	for s, n := range g.hosts() {
		if n > 0 {
			leaves = append(leaves, int32(s))
		}
	}
	dist := distances(links, leaves)
	var roots []int32
	for _, part := range parts(links) {
		far := int32(0)
		for _, s := range part {
			if dist[s] != unreached {
				far = max(far, dist[s])
			}
		}
		if far == 0 {
			roots = append(roots, center(links, part))
			continue
		}
		for _, s := range part {
			if dist[s] == far {
				roots = append(roots, s)
			}
		}
	}
	return roots
}

// centers returns the center of each part.
func (g *Graph) centers() []int32 {
	links := g.adjacency()
	var roots []int32
	for _, part := range parts(links) {
		roots = append(roots, center(links, part))
	}
	return roots
}

// parts returns the connected parts of a graph.
func parts(links [][]link) [][]int32 {
	var all [][]int32
	seen := make([]bool, len(links))
	for s := range links {
		if seen[s] {
			continue
		}
		seen[s] = true
		part := []int32{int32(s)}
		for i := 0; i < len(part); i++ {
			for _, l := range links[part[i]] {
				if !seen[l.to] {
					seen[l.to] = true
					part = append(part, l.to)
				}
			}
		}
		all = append(all, part)
	}
	return all
}

// center returns the switch whose farthest switch is nearest; of several, the one with the most
// links.
func center(links [][]link, part []int32) int32 {
	best, bestFar := part[0], int32(unreached)
	for _, s := range part {
		far := int32(0)
		for _, d := range distances(links, []int32{s}) {
			if d != unreached {
				far = max(far, d)
			}
		}
		if far < bestFar || far == bestFar && len(links[s]) > len(links[best]) {
			best, bestFar = s, far
		}
	}
	return best
}
