// SPDX-License-Identifier: Apache-2.0

package routing

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

// build makes graphs for tests: switches, cables between their next free ports, adapters.
type build struct {
	g    Graph
	next uint16
}

func switches(n int) *build {
	b := &build{next: 1}
	for range n {
		b.g.Peers = append(b.g.Peers, []End{NoEnd})
	}
	for s := range n {
		b.lid(End{Switch: int32(s)})
	}
	return b
}

func (b *build) lid(at End) {
	b.g.Endpoints = append(b.g.Endpoints, Endpoint{b.next, at})
	b.next++
}

func (b *build) cable(x, y int) {
	ex := End{int32(x), uint8(len(b.g.Peers[x]))}
	b.g.Peers[x] = append(b.g.Peers[x], NoEnd)
	ey := End{int32(y), uint8(len(b.g.Peers[y]))}
	b.g.Peers[y] = append(b.g.Peers[y], ex)
	b.g.Peers[x][ex.Port] = ey
}

func (b *build) hosts(s, n int) {
	for range n {
		b.lid(End{int32(s), uint8(len(b.g.Peers[s]))})
		b.g.Peers[s] = append(b.g.Peers[s], NoEnd)
	}
}

func line(n int) *build {
	b := switches(n)
	for s := range n - 1 {
		b.cable(s, s+1)
	}
	for s := range n {
		b.hosts(s, 2)
	}
	return b
}

func ring(n int) *build {
	b := line(n)
	b.cable(n-1, 0)
	return b
}

func mesh(w, h int, torus bool) *build {
	b := switches(w * h)
	for y := range h {
		for x := range w {
			if x+1 < w || torus {
				b.cable(y*w+x, y*w+(x+1)%w)
			}
			if y+1 < h || torus {
				b.cable(y*w+x, (y+1)%h*w+x)
			}
		}
	}
	for s := range w * h {
		b.hosts(s, 1)
	}
	return b
}

// fatTree is a three-level tree of switches with k ports: k^3/4 adapters.
func fatTree(k int) *build {
	h := k / 2
	edge := func(pod, i int) int { return pod*k + i }
	agg := func(pod, i int) int { return pod*k + h + i }
	core := func(i int) int { return k*k + i }
	b := switches(k*k + h*h)
	for pod := range k {
		for i := range h {
			for j := range h {
				b.cable(edge(pod, i), agg(pod, j))
				b.cable(agg(pod, i), core(i*h+j))
			}
		}
		for i := range h {
			b.hosts(edge(pod, i), h)
		}
	}
	return b
}

// random is a connected graph with some cycles.
func random(seed uint64) *build {
	rng := rand.New(rand.NewPCG(seed, 1))
	n := 1 + rng.IntN(30)
	b := switches(n)
	for s := 1; s < n; s++ {
		b.cable(s, rng.IntN(s))
	}
	for range rng.IntN(2*n + 1) {
		b.cable(rng.IntN(n), rng.IntN(n))
	}
	for s := range n {
		b.hosts(s, rng.IntN(4))
	}
	return b
}

func topologies() map[string]*build {
	all := map[string]*build{
		"one switch": line(1), "line": line(6), "ring": ring(7), "small ring": ring(3), "mesh": mesh(4, 5, false),
		"torus": mesh(5, 4, true), "fat tree 4": fatTree(4), "fat tree 8": fatTree(8),
	}
	for seed := range uint64(60) {
		all[fmt.Sprintf("random %d", seed)] = random(seed)
	}
	return all
}

// reach walks from every switch to every endpoint.
func reach(t *testing.T, g *Graph, tables Tables) {
	t.Helper()
	for s := range g.Peers {
		for _, e := range g.Endpoints {
			if !g.Walk(tables, int32(s), e, nil) {
				t.Fatalf("no way from switch %d to LID %d at %v", s, e.LID, e.At)
			}
		}
	}
}

// loops says by brute force whether tables have a credit loop: it walks all pairs of which one is an
// adapter, and takes away channels that depend on nothing until none or a cycle is left. Trees add
// the pairs of ports of each group.
func loops(g *Graph, tables Tables, groups [][]PortSet) bool {
	after := map[End]map[End]bool{} // the channels that a channel's packets go on to
	add := func(a, b End) {
		if after[a] == nil {
			after[a] = map[End]bool{}
		}
		after[a][b] = true
	}
	between := func(c End) bool { return c.Port != 0 && g.Peers[c.Switch][c.Port].Switch >= 0 }
	for _, from := range g.Endpoints {
		for _, to := range g.Endpoints {
			if from.At.Port == 0 && to.At.Port == 0 {
				continue
			}
			var path []End
			g.Walk(tables, from.At.Switch, to, func(c End) { path = append(path, c) })
			for i := 1; i < len(path); i++ {
				if between(path[i]) {
					add(path[i-1], path[i])
				}
			}
		}
	}
	for _, group := range groups {
		for s := range group {
			for in, peer := range g.Peers[s] {
				for out := range g.Peers[s] {
					if in != out && peer.Switch >= 0 && group[s].Has(uint8(in)) && group[s].Has(uint8(out)) &&
						between(End{int32(s), uint8(out)}) {
						add(peer, End{int32(s), uint8(out)})
					}
				}
			}
		}
	}
	for {
		free := 0
		for a, outs := range after {
			for b := range outs {
				if len(after[b]) == 0 {
					delete(outs, b)
					free++
				}
			}
			if len(outs) == 0 {
				delete(after, a)
			}
		}
		if free == 0 {
			return len(after) > 0
		}
	}
}

func TestRoutesReachAll(t *testing.T) {
	for name, b := range topologies() {
		for _, a := range []Algorithm{Auto, MinHop, UpDown} {
			t.Run(name+"/"+a.String(), func(t *testing.T) {
				r := b.g.Route(a)
				reach(t, &b.g, r.Tables)
				loop := b.g.CreditLoop(r.Tables, nil)
				if bad := loops(&b.g, r.Tables, nil); bad != (loop != nil) {
					t.Errorf("credit loop: %v by walking all pairs, %v by the checker", bad, loop)
				}
				if a != MinHop && r.Loop != nil {
					t.Errorf("credit loop %v", r.Loop)
				}
			})
		}
	}
}

// A ring of seven has a loop with shortest paths, and a chain of channels that really are each other's
// successors is the map that the checker shows.
func TestLoopIsNamed(t *testing.T) {
	g := &ring(7).g
	r := g.Route(MinHop)
	if len(r.Loop) != 7 {
		t.Fatalf("loop of %d channels, want all seven of a direction: %v", len(r.Loop), r.Loop)
	}
	for i, c := range r.Loop {
		next := r.Loop[(i+1)%len(r.Loop)]
		if g.Peers[c.Switch][c.Port].Switch != next.Switch {
			t.Errorf("%v does not lead to %v", c, next)
		}
	}
	if auto := g.Route(Auto); auto.Used != UpDown {
		t.Errorf("auto takes %v on a ring", auto.Used)
	}
	if auto := fatTree(4).g.Route(Auto); auto.Used != MinHop {
		t.Errorf("auto takes %v on a tree", auto.Used)
	}
}

func TestMinHopIsShortest(t *testing.T) {
	for name, b := range topologies() {
		tables := b.g.MinHop()
		links := b.g.adjacency()
		for s := range b.g.Peers {
			dist := distances(links, []int32{int32(s)})
			for _, e := range b.g.Endpoints {
				hops := int32(0)
				b.g.Walk(tables, int32(s), e, func(End) { hops++ })
				if want := dist[e.At.Switch] + 1; hops != want {
					t.Fatalf("%s: %d hops from %d to %v, want %d", name, hops, s, e, want)
				}
			}
		}
	}
}

// On a fat tree with as many cables up as adapters, all-to-all traffic loads all cables of a level
// and direction alike.
func TestBalance(t *testing.T) {
	for _, k := range []int{4, 8} {
		for _, a := range []Algorithm{MinHop, UpDown} {
			b := fatTree(k)
			tables := b.g.Route(a).Tables
			load := map[End]int{}
			for _, from := range b.g.Endpoints {
				for _, to := range b.g.Endpoints {
					if from.At.Port != 0 && to.At.Port != 0 && from != to {
						b.g.Walk(tables, from.At.Switch, to, func(c End) { load[c]++ })
					}
				}
			}
			h := k / 2
			kind := func(s int32) int { // 0 edge, 1 aggregation, 2 core
				if int(s) >= k*k {
					return 2
				}
				return int(s) % k / h
			}
			type class struct{ from, to int }
			span := map[class][2]int{}
			for s := range b.g.Peers {
				for p, e := range b.g.Peers[s] {
					if e.Switch < 0 {
						continue
					}
					c, n := class{kind(int32(s)), kind(e.Switch)}, load[End{int32(s), uint8(p)}]
					m, seen := span[c]
					if !seen {
						m = [2]int{n, n}
					}
					span[c] = [2]int{min(m[0], n), max(m[1], n)}
				}
			}
			for c, m := range span {
				t.Logf("k=%d %v: %v: %d to %d flows a cable", k, a, c, m[0], m[1])
				if m[0] == 0 || m[1] > 3*m[0]/2 {
					t.Errorf("k=%d %v: cables from level %d to %d carry %d to %d flows", k, a, c.from, c.to, m[0], m[1])
				}
			}
		}
	}
}

func TestUpDownIsLegal(t *testing.T) {
	for name, b := range topologies() {
		roots := b.g.centers()
		tables, legal := b.g.UpDown(roots)
		if !legal {
			t.Fatalf("%s: one root, and not all are reached", name)
		}
		r := newRouter(&b.g)
		r.rank(roots)
		for s := range b.g.Peers {
			for _, e := range b.g.Endpoints {
				at, down := int32(s), false
				b.g.Walk(tables, at, e, func(c End) {
					to := b.g.Peers[c.Switch][max(int(c.Port), 0)]
					if c.Port == 0 || to.Switch < 0 {
						return
					}
					up := r.position[to.Switch] < r.position[c.Switch]
					if up && down {
						t.Fatalf("%s: from %d to %v: up again at %v", name, s, e, c)
					}
					down = down || !up
				})
			}
		}
	}
}

// Groups reach each member once, from whichever member sends, and groups of adapters wait in no circle
// with the routes.
func TestMulticast(t *testing.T) {
	for name, b := range topologies() {
		g := &b.g
		routes := g.Route(Auto)
		rng := rand.New(rand.NewPCG(9, 9))
		var groups [][]PortSet
		for i := range 24 {
			var members []End
			for _, e := range g.Endpoints {
				if rng.IntN(3) == 0 && (i%2 == 0 || e.At.Port != 0) {
					members = append(members, e.At)
				}
			}
			group := g.Group(routes.Trees[i%len(routes.Trees)], members, nil)
			if i%2 != 0 {
				groups = append(groups, group)
			}
			for _, from := range members {
				got := deliver(t, g, group, from)
				for _, to := range members {
					if to != from && got[to] != 1 {
						t.Fatalf("%s: a packet from %v comes to %v %d times", name, from, to, got[to])
					}
				}
				for to, n := range got {
					if !slices.Contains(members, to) {
						t.Fatalf("%s: %d packets leave at %v, which is no member", name, n, to)
					}
				}
			}
		}
		if loop := g.CreditLoop(routes.Tables, groups); loop != nil {
			t.Errorf("%s: credit loop with trees: %v", name, loop)
		}
		if loops(g, routes.Tables, groups) {
			t.Errorf("%s: credit loop with trees, which the checker does not see", name)
		}
	}
}

// deliver sends a packet from a member, and returns how many come out at each port that has no switch
// behind it.
func deliver(t *testing.T, g *Graph, group []PortSet, from End) map[End]int {
	t.Helper()
	got := map[End]int{}
	queue := []End{from}
	for n := 0; len(queue) > 0; n++ {
		if n > 10*len(g.Peers)+10 {
			t.Fatal("a packet goes in circles")
		}
		in := queue[0]
		queue = queue[1:]
		if p := (End{in.Switch, 0}); group[in.Switch].Has(0) && in.Port != 0 {
			got[p]++
		}
		for p := 1; p < len(g.Peers[in.Switch]); p++ {
			if !group[in.Switch].Has(uint8(p)) || uint8(p) == in.Port {
				continue
			}
			if e := g.Peers[in.Switch][p]; e.Switch >= 0 {
				queue = append(queue, e)
			} else {
				got[End{in.Switch, uint8(p)}]++
			}
		}
	}
	return got
}

func BenchmarkRoute(b *testing.B) {
	g := &fatTree(16).g
	for b.Loop() {
		if r := g.Route(Auto); r.Loop != nil || r.Used != MinHop {
			b.Fatal(r.Used, r.Loop)
		}
	}
}
