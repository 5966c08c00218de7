// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"errors"
	"fmt"
	"math"
)

// Topology is hosts, switches and the links between them. Nodes have numbers: first the hosts, then the switches.
type Topology struct {
	Hosts    int
	Switches int
	Links    []Link
}

// Link is a link between two nodes.
type Link struct {
	A, B  int
	Rate  float64 // bits per second
	Delay Time
	Loss  float64 // share of packets that are corrupted on the way
}

// Limits of a topology.
const (
	MaxHosts    = 1 << 17
	maxSwitches = 1 << 14
)

// Wires are the rate and delay of a topology's links.
type Wires struct {
	Rate, Uplink float64 // bits per second: of hosts; between switches, 0: as of hosts
	Delay        Time
	Loss         float64
}

func (t *Topology) link(a, b int, w *Wires) {
	rate := w.Rate
	if w.Uplink > 0 && a >= t.Hosts && b >= t.Hosts {
		rate = w.Uplink
	}
	t.Links = append(t.Links, Link{A: a, B: b, Rate: rate, Delay: w.Delay, Loss: w.Loss})
}

// Star is hosts at one switch.
func Star(hosts int, w Wires) *Topology {
	t := &Topology{Hosts: hosts, Switches: 1}
	for h := range hosts {
		t.link(h, hosts, &w)
	}
	return t
}

// Dumbbell is two switches with so many hosts each, and a link between them. The first half of the hosts is at the
// first.
func Dumbbell(each int, w Wires) *Topology { return LeafSpine(2, 0, each, w) }

// LeafSpine is leaves with hosts, each with a link to each spine. Two leaves without spines have a link to each other.
func LeafSpine(leaves, spines, each int, w Wires) *Topology {
	t := &Topology{Hosts: leaves * each, Switches: leaves + spines}
	for l := range leaves {
		for h := range each {
			t.link(l*each+h, t.Hosts+l, &w)
		}
		for s := range spines {
			t.link(t.Hosts+l, t.Hosts+leaves+s, &w)
		}
	}
	if spines == 0 && leaves == 2 {
		t.link(t.Hosts, t.Hosts+1, &w)
	}
	return t
}

// FatTree is a fat tree of switches with k ports: k pods of k/2 edge and k/2 aggregation switches, k²/4 core switches
// and k³/4 hosts (Al-Fares et al., SIGCOMM 2008). k is even.
func FatTree(k int, w Wires) *Topology {
	half := k / 2
	t := &Topology{Hosts: k * half * half, Switches: k*k + half*half}
	edges, aggregations, cores := t.Hosts, t.Hosts+k*half, t.Hosts+k*k
	for pod := range k {
		for e := range half {
			edge := edges + pod*half + e
			for h := range half {
				t.link((pod*half+e)*half+h, edge, &w)
			}
			for a := range half {
				t.link(edge, aggregations+pod*half+a, &w)
			}
		}
		for a := range half {
			for c := range half {
				t.link(aggregations+pod*half+a, cores+a*half+c, &w)
			}
		}
	}
	return t
}

// Check returns the first error in a topology.
func (t *Topology) Check() error {
	if t.Hosts < 2 || t.Hosts > MaxHosts || t.Switches > maxSwitches {
		return fmt.Errorf("there are %d hosts and %d switches: there have to be 2 to %d hosts, and %d switches at most",
			t.Hosts, t.Switches, MaxHosts, maxSwitches)
	}
	links := make([]int, t.Hosts+t.Switches)
	for _, l := range t.Links {
		for _, n := range [2]int{l.A, l.B} {
			if n < 0 || n >= t.Hosts+t.Switches {
				return fmt.Errorf("a link ends at node %d: there are %d nodes, from 0", n, t.Hosts+t.Switches)
			}
			links[n]++
		}
		switch {
		case l.A == l.B:
			return fmt.Errorf("a link goes from node %d to itself", l.A)
		case l.A < t.Hosts && l.B < t.Hosts:
			return fmt.Errorf("a link connects hosts %d and %d: hosts are connected by switches", l.A, l.B)
		case !(l.Rate >= 1e6 && l.Rate <= 1e13) || l.Delay < 0 || l.Delay > Second || !(l.Loss >= 0 && l.Loss < 1):
			return fmt.Errorf("the link between nodes %d and %d has %v bits per second, a delay of %v and a loss of %v: give 1 Mb/s to 10 Tb/s, up to 1 s, and a share below 1",
				l.A, l.B, l.Rate, l.Delay.Duration(), l.Loss)
		}
	}
	for i, n := range links {
		if i < t.Hosts && n != 1 {
			return fmt.Errorf("host %d has %d links: a host has one", i, n)
		}
		if n > math.MaxUint16 {
			return fmt.Errorf("switch %d has %d links: %d at most", i-t.Hosts, n, math.MaxUint16)
		}
	}
	return nil
}

// build makes hosts, switches and ports, and the switches' tables.
func (s *Sim) build(t *Topology) error {
	for i := range t.Hosts {
		s.hosts = append(s.hosts, s.newHost(int32(i)))
	}
	for i := range t.Switches {
		s.switches = append(s.switches, &fabricSwitch{name: fmt.Sprint("switch ", i), config: &s.config.Switch,
			edge: -1, seed: s.rand.Uint32()})
	}
	s.edgeOf = make([]int32, t.Hosts)
	for _, l := range t.Links {
		a, b := s.newPort(t, l.A, &l), s.newPort(t, l.B, &l)
		a.peer, b.peer = b, a
		if s.config.Switch.InfiniBand {
			a.lanes, b.lanes = new([numClasses]lane), new([numClasses]lane)
			a.open(s.config.Switch.Credits)
			b.open(s.config.Switch.Credits)
		}
	}
	for _, h := range s.hosts {
		w, ok := h.port.peer.owner.(*fabricSwitch)
		if !ok {
			return &Error{Part: OfTopology, Err: errors.New("a host is not at a switch")}
		}
		if w.edge < 0 {
			w.edge, w.local = len(s.edges), make([]int32, t.Hosts)
			s.edges = append(s.edges, w)
		}
		w.local[h.num] = int32(h.port.peer.index) + 1
		s.edgeOf[h.num] = int32(w.edge)
	}
	for _, w := range s.switches {
		w.start()
		if w.shared <= 0 && !s.config.Switch.InfiniBand {
			return &Error{Part: OfSwitch, Err: fmt.Errorf("%s has %d ports, and its buffer of %d bytes does not even hold their headroom: give a larger switch.buffer, or less switch.headroom", w.name, len(w.ports), w.config.Buffer)}
		}
	}
	s.findRoutes()
	for e, edge := range s.edges {
		for _, other := range s.edges {
			if other != edge && other.routes[e] == nil {
				return &Error{Part: OfTopology,
					Err: fmt.Errorf("there is no path between %s and %s", edge.name, other.name)}
			}
		}
	}
	return s.plan(t)
}

func (s *Sim) newPort(t *Topology, n int, l *Link) *port {
	p := &port{rate: l.Rate, psByte: 8e12 / l.Rate, delay: l.Delay, loss: l.Loss, gap: s.config.framing().gap,
		downAt: -1}
	if n < t.Hosts {
		p.owner, s.hosts[n].port = s.hosts[n], p
		return p
	}
	w := s.switches[n-t.Hosts]
	p.owner, p.index = w, len(w.ports)
	w.ports = append(w.ports, p)
	return p
}

// findRoutes sets the ports of all shortest paths from each switch to each switch with hosts, by links that are up.
func (s *Sim) findRoutes() {
	for _, w := range s.switches {
		w.routes = make([][]uint16, len(s.edges))
	}
	distance := make(map[*fabricSwitch]int, len(s.switches))
	for e, edge := range s.edges {
		clear(distance)
		distance[edge] = 0
		for line := []*fabricSwitch{edge}; len(line) > 0; line = line[1:] {
			w := line[0]
			for _, p := range w.ports {
				next, ok := p.peer.owner.(*fabricSwitch)
				if !ok || p.down() {
					continue
				}
				if _, seen := distance[next]; !seen {
					distance[next] = distance[w] + 1
					line = append(line, next)
				}
				if distance[next] == distance[w]+1 {
					next.routes[e] = append(next.routes[e], uint16(p.peer.index))
				}
			}
		}
	}
}
