// SPDX-License-Identifier: Apache-2.0

package routing

import "github.com/ramjet-rdma/ramjet/internal/engine/node"

// End is a port of a switch: the switch's index in its [Graph], and the port's number.
type End struct {
	Switch int32
	Port   uint8
}

// NoEnd is the peer of a port that is not connected to a switch.
var NoEnd = End{Switch: -1}

// Endpoint is a unicast LID and where it is.
type Endpoint struct {
	LID uint16
	At  End // the switch's port that an adapter is connected to; port 0: the LID is the switch's own
}

// Graph is a subnet as routing sees it: switches, their cables, and LIDs.
type Graph struct {
	// Peers[s][p] is the other end of the cable at port p of switch s, [NoEnd] if there is no switch.
	Peers [][]End
	// Endpoints are the LIDs to be routed. No LID stands here twice.
	Endpoints []Endpoint
}

// Tables are linear forwarding tables: Tables[s][lid] is the output port of switch s, or
// [node.NoRoute]. All have the same length: the highest LID plus one.
type Tables [][]uint8

// link is a connected port of a switch.
type link struct {
	to   int32
	port uint8
}

// adjacency returns the links of each switch, by port. Cables from a switch to itself lead nowhere.
func (g *Graph) adjacency() [][]link {
	all := make([][]link, len(g.Peers))
	for s, peers := range g.Peers {
		for p, e := range peers {
			if p > 0 && e.Switch >= 0 && e.Switch != int32(s) {
				all[s] = append(all[s], link{e.Switch, uint8(p)})
			}
		}
	}
	return all
}

// hosts returns how many adapters' LIDs each switch has.
func (g *Graph) hosts() []int {
	n := make([]int, len(g.Peers))
	for _, e := range g.Endpoints {
		if e.At.Port != 0 {
			n[e.At.Switch]++
		}
	}
	return n
}

// top returns the highest LID.
func (g *Graph) top() uint16 {
	top := uint16(0)
	for _, e := range g.Endpoints {
		top = max(top, e.LID)
	}
	return top
}

// emptyTables returns tables without any route.
func (g *Graph) emptyTables() Tables {
	n := int(g.top()) + 1
	all := make([]uint8, n*len(g.Peers))
	for i := range all {
		all[i] = node.NoRoute
	}
	t := make(Tables, len(g.Peers))
	for s := range t {
		t[s] = all[s*n : (s+1)*n : (s+1)*n]
	}
	return t
}

// Next returns where a packet to lid goes that is at switch s: the port that it leaves through, and
// the other end of its cable, [NoEnd] if no switch is there. It returns false if s drops it.
func (g *Graph) Next(t Tables, s int32, lid uint16) (port uint8, to End, ok bool) {
	if int(lid) >= len(t[s]) {
		return 0, NoEnd, false
	}
	port = t[s][lid]
	if port == node.NoRoute || int(port) >= len(g.Peers[s]) {
		return port, NoEnd, false
	}
	if port == 0 {
		return 0, NoEnd, true
	}
	return port, g.Peers[s][port], true
}

// Walk follows the tables from switch s to the endpoint e, and calls visit for each port that a packet
// leaves a switch through, the last one included. It returns false if the packet does not arrive: it
// is dropped, arrives somewhere else, or goes in circles.
func (g *Graph) Walk(t Tables, s int32, e Endpoint, visit func(End)) bool {
	for range len(g.Peers) {
		port, to, ok := g.Next(t, s, e.LID)
		if !ok {
			return false
		}
		if visit != nil {
			visit(End{s, port})
		}
		if s == e.At.Switch && port == e.At.Port {
			return true
		}
		if to.Switch < 0 {
			return false
		}
		s = to.Switch
	}
	return false
}
