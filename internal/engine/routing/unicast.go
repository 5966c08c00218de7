// SPDX-License-Identifier: Apache-2.0

package routing

import "math"

// MinHop returns tables whose paths are all as short as can be. Among the shortest, traffic is spread
// as if each adapter sent as much to each other: see [router.spread]. On graphs with cycles such
// tables may have credit loops.
func (g *Graph) MinHop() Tables {
	r := newRouter(g)
	for d := range g.Peers {
		if len(r.at[d]) > 0 {
			r.nearest(int32(d))
			r.spread(int32(d))
		}
	}
	return r.tables
}

// UpDown returns tables whose paths go up and then down, never up again, in an order of the switches
// that begins with the roots and continues with their neighbors (Autonet's rule). So they have no
// credit loop.
//
// With several roots there may be pairs of switches that no such path connects. They get a shortest
// path, and legal is false if an adapter is concerned: there may be credit loops. With one root, and
// one connected graph, that does not happen.
func (g *Graph) UpDown(roots []int32) (t Tables, legal bool) {
	r := newRouter(g)
	r.rank(roots)
	legal = true
	for d := range g.Peers {
		if len(r.at[d]) == 0 {
			continue
		}
		if !r.upDown(int32(d)) {
			legal = false
		}
		r.spread(int32(d))
	}
	return r.tables, legal
}

// unreached is the level of a switch without a path.
const unreached = math.MaxInt32

// router is the working memory of the search for routes. For one destination switch at a time it has a plan:
// each switch's level, and the links that lead to the next lower level.
type router struct {
	g      *Graph
	links  [][]link
	hosts  []int
	at     [][]Endpoint // by switch
	tables Tables

	order []int32 // the switches that have a path: no switch sends to one before it
	level []int32 // hops to the destination, as the path goes
	mode  []mode

	position []int32 // in the order of up/down: a link to a lower position leads up
	ranked   []int32 // the switches by position

	load  [][]load // by switch and port
	flow  []uint64 // by switch: the flows that pass it on their way to the destination
	queue []int32
}

// mode says which links of a switch a plan permits.
type mode uint8

const (
	anyLink mode = iota
	upLink
	downLink
)

// load counts the routes that a port carries so far.
type load struct {
	flow   uint64 // of adapters to adapters
	routes uint32
}

func newRouter(g *Graph) *router {
	n := len(g.Peers)
	r := &router{g: g, links: g.adjacency(), hosts: g.hosts(), at: make([][]Endpoint, n), tables: g.emptyTables(),
		level: make([]int32, n), mode: make([]mode, n), load: make([][]load, n), flow: make([]uint64, n)}
	for s := range r.load {
		r.load[s] = make([]load, len(g.Peers[s]))
	}
	for _, e := range g.Endpoints {
		r.at[e.At.Switch] = append(r.at[e.At.Switch], e)
	}
	return r
}

// nearest plans shortest paths to d.
func (r *router) nearest(d int32) {
	for s := range r.level {
		r.level[s], r.mode[s] = unreached, anyLink
	}
	r.level[d] = 0
	r.queue = append(r.queue[:0], d)
	for i := 0; i < len(r.queue); i++ {
		s := r.queue[i]
		for _, l := range r.links[s] {
			if r.level[l.to] == unreached {
				r.level[l.to] = r.level[s] + 1
				r.queue = append(r.queue, l.to)
			}
		}
	}
	r.order = r.order[:0]
	for i := len(r.queue) - 1; i >= 0; i-- {
		r.order = append(r.order, r.queue[i])
	}
}

// rank gives the switches positions: by their distance from the nearest root, and by index.
func (r *router) rank(roots []int32) {
	dist := distances(r.links, roots)
	n := len(dist)
	r.position, r.ranked = make([]int32, n), make([]int32, 0, n)
	// Distances are below n, except for switches that are not connected: they come last.
	at := make([][]int32, n+1)
	for s, d := range dist {
		d = min(d, int32(n))
		at[d] = append(at[d], int32(s))
	}
	for _, level := range at {
		for _, s := range level {
			r.position[s] = int32(len(r.ranked))
			r.ranked = append(r.ranked, s)
		}
	}
}

// upDown plans paths to d that go up and then down. A switch that has a path down takes it, even where
// a path up and down were shorter: packets that come down to it may not go up again, and a forwarding
// table does not tell where a packet came from. It returns false if some adapter is left without a legal
// path.
func (r *router) upDown(d int32) (legal bool) {
	for s := range r.level {
		r.level[s], r.mode[s] = unreached, upLink
	}
	r.level[d], r.mode[d] = 0, downLink
	r.queue = append(r.queue[:0], d)
	for i := 0; i < len(r.queue); i++ {
		s := r.queue[i]
		for _, l := range r.links[s] {
			if r.position[l.to] < r.position[s] && r.level[l.to] == unreached {
				r.level[l.to], r.mode[l.to] = r.level[s]+1, downLink
				r.queue = append(r.queue, l.to)
			}
		}
	}
	for _, s := range r.ranked {
		if r.mode[s] != upLink {
			continue
		}
		for _, l := range r.links[s] {
			if r.position[l.to] < r.position[s] && r.level[l.to] != unreached {
				r.level[s] = min(r.level[s], r.level[l.to]+1)
			}
		}
	}
	r.order = r.order[:0]
	for i := len(r.ranked) - 1; i >= 0; i-- {
		if s := r.ranked[i]; r.mode[s] == upLink && r.level[s] != unreached {
			r.order = append(r.order, s)
		}
	}
	for _, s := range r.ranked {
		if r.mode[s] == downLink {
			r.order = append(r.order, s)
		}
	}
	return r.fill(d)
}

// fill gives switches that the plan leaves without a path to d the way to the nearest switch that has
// a path. It returns false if an adapter is at either end.
func (r *router) fill(d int32) (legal bool) {
	if len(r.order) == len(r.level) {
		return true
	}
	legal = true
	var lost []int32
	r.queue = append(r.queue[:0], r.order...)
	near := make(map[int32]int32)
	for i := 0; i < len(r.queue); i++ {
		s := r.queue[i]
		for _, l := range r.links[s] {
			if _, seen := near[l.to]; seen || r.level[l.to] != unreached {
				continue
			}
			near[l.to] = s
			r.queue = append(r.queue, l.to)
			lost = append(lost, l.to)
			if r.hosts[l.to] > 0 || r.hosts[d] > 0 {
				legal = false
			}
		}
	}
	for _, s := range lost {
		for _, l := range r.links[s] {
			if l.to == near[s] {
				for _, e := range r.at[d] {
					r.tables[s][e.LID] = l.port
				}
				break
			}
		}
	}
	return legal
}

// spread enters the routes to the LIDs at switch d, as planned. Among the ports that the plan permits,
// a LID gets the port that carries the least so far, counted in flows from an adapter to an adapter: so
// a switch that the flows of a LID do not pass does not count it, and switches in series do not all
// make the same choice.
func (r *router) spread(d int32) {
	for _, e := range r.at[d] {
		clear(r.flow)
		for _, s := range r.order {
			if s == d {
				r.tables[s][e.LID] = e.At.Port
				continue
			}
			best, found := link{}, false
			for _, l := range r.links[s] {
				if !r.permits(s, l.to) {
					continue
				}
				if !found || r.load[s][l.port].less(r.load[s][best.port]) {
					best, found = l, true
				}
			}
			if !found {
				continue
			}
			r.tables[s][e.LID] = best.port
			if e.At.Port == 0 {
				continue // management traffic of switches does not count
			}
			flow := r.flow[s] + uint64(r.hosts[s])
			r.flow[best.to] += flow
			r.load[s][best.port].flow += flow
			r.load[s][best.port].routes++
		}
	}
}

func (r *router) permits(s, to int32) bool {
	if r.level[to] == unreached || r.level[to]+1 != r.level[s] {
		return false
	}
	switch r.mode[s] {
	case upLink:
		return r.position[to] < r.position[s]
	case downLink:
		return r.position[to] > r.position[s] && r.mode[to] == downLink
	}
	return true
}

func (l load) less(m load) bool { return l.flow < m.flow || l.flow == m.flow && l.routes < m.routes }

// distances returns the hops of each switch to the nearest of some.
func distances(links [][]link, from []int32) []int32 {
	dist := make([]int32, len(links))
	for s := range dist {
		dist[s] = unreached
	}
	queue := make([]int32, 0, len(links))
	for _, s := range from {
		dist[s] = 0
		queue = append(queue, s)
	}
	for i := 0; i < len(queue); i++ {
		s := queue[i]
		for _, l := range links[s] {
			if dist[l.to] == unreached {
				dist[l.to] = dist[s] + 1
				queue = append(queue, l.to)
			}
		}
	}
	return dist
}
