// SPDX-License-Identifier: Apache-2.0

package fabricview

import (
	"fmt"
	"slices"

	"github.com/ramjet-rdma/ramjet/internal/engine/node"
	"github.com/ramjet-rdma/ramjet/internal/engine/topology"
)

var nodeTypes = map[node.Type]NodeType{node.CA: Adapter, node.Switch: Switch, node.Router: Router}

// FromTopology returns the view of a fabric that is not running.
func FromTopology(t *topology.Topology) *View {
	v := &View{}
	for i := range t.Nodes {
		n := &t.Nodes[i]
		made := Node{Name: n.Name, Type: nodeTypes[n.Type], Description: n.Description, GUID: GUID(n.GUID),
			LID: n.Ports[0].LID}
		for num := 1; num < len(n.Ports); num++ {
			made.Ports = append(made.Ports, Port{Number: num, GUID: GUID(n.Ports[num].GUID), LID: n.Ports[num].LID})
		}
		v.Nodes = append(v.Nodes, made)
	}
	for _, l := range t.Links {
		for _, e := range []topology.End{l.A, l.B} {
			p := &v.Nodes[e.Node].Ports[e.Port-1]
			p.Rate, p.Mbps = rate(l.Width, l.Speed)
		}
		v.Links = append(v.Links, Link{A: End{t.Nodes[l.A.Node].Name, l.A.Port},
			B: End{t.Nodes[l.B.Node].Name, l.B.Port}})
	}
	return v
}

func rate(w node.Width, s node.Speed) (string, int64) {
	if w == 0 || s == 0 {
		return "", 0
	}
	return fmt.Sprintf("%dx%v", w.Lanes(), s.Fastest()), int64(w.Lanes()) * s.Mbps()
}

// FromNode returns the view of a running node. The caller adds loads and withheld credits.
func FromNode(name string, n *node.Node) Node {
	v := Node{Name: name, Type: nodeTypes[n.Type], Description: n.Description, GUID: GUID(n.GUID)}
	if v.Description == name {
		v.Description = ""
	}
	if n.Type == node.Switch {
		v.LID = n.Ports[0].Address.LID
	}
	for num := 1; num < len(n.Ports); num++ {
		p, c := &n.Ports[num], &n.Ports[num].Counters
		port := Port{Number: num, LID: p.Address.LID, State: State(p.Link.Logical.String()), Counters: Counters{
			XmitData: 4 * c.XmitData, RcvData: 4 * c.RcvData, XmitPackets: c.XmitPkts, RcvPackets: c.RcvPkts,
			XmitWait: c.XmitWait, XmitDiscards: c.XmitDiscards, RcvErrors: c.RcvErrors,
			SymbolErrors: c.SymbolErrors, LinkDowned: c.LinkDowned, VL15Dropped: c.VL15Dropped, LanePackets: c.LanePkts,
		}}
		if n.Type == node.Switch {
			port.LID = 0
		} else {
			port.GUID = GUID(p.GUID)
		}
		if port.State != Down {
			port.Rate, port.Mbps = rate(p.Link.WidthActive, p.Link.SpeedActive)
		}
		v.Ports = append(v.Ports, port)
	}
	return v
}

// maxHops limits the length of a route.
const maxHops = 64

// Trace returns the route from an adapter's port to a LID, by the forwarding tables that tables
// returns for a switch. It works on a view of running nodes.
func (v *View) Trace(from, to End, tables func(name string) *node.Tables) *Route {
	x := v.index()
	r := &Route{From: from, To: to, FromLID: x.lid(from), ToLID: x.lid(to)}
	if r.ToLID == 0 {
		r.Broken = fmt.Sprintf("%v has no LID yet", to)
		return r
	}
	visited := []string{from.Node}
	for at := from; at.Node != to.Node; {
		if len(r.Hops) == maxHops {
			r.Broken = fmt.Sprintf("there are more than %d hops", maxHops)
			return r
		}
		out := at
		if len(r.Hops) > 0 || v.isSwitch(x, at.Node) {
			port, why := forward(x, tables, at.Node, r.ToLID)
			if why != "" {
				r.Broken = why
				return r
			}
			out = End{at.Node, port}
		}
		next, ok := x.peer(out)
		if state := x.port(out).State; !ok || state != Active {
			r.Broken = fmt.Sprintf("port %d of %s is %s", out.Port, out.Node, state)
			return r
		}
		r.Hops = append(r.Hops, Hop{out, next})
		if slices.Contains(visited, next.Node) {
			r.Broken = fmt.Sprintf("the tables lead in a circle, back to %s", next.Node)
			return r
		}
		visited = append(visited, next.Node)
		at = next
	}
	return r
}

func (v *View) isSwitch(x *index, name string) bool {
	i, ok := x.nodes[name]
	return ok && v.Nodes[i].Type == Switch
}

// forward returns the port to which a switch forwards a LID, or why it does not.
func forward(x *index, tables func(string) *node.Tables, name string, lid uint16) (port int, why string) {
	t := tables(name)
	switch {
	case t == nil:
		return 0, fmt.Sprintf("%s is not a switch", name)
	case lid > t.Top || int(lid) >= len(t.Linear) || t.Linear[lid] == node.NoRoute:
		return 0, fmt.Sprintf("%s has no entry for LID %d", name, lid)
	case x.view.Nodes[x.nodes[name]].Off:
		return 0, fmt.Sprintf("%s is down", name)
	}
	return int(t.Linear[lid]), ""
}
