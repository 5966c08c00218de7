// SPDX-License-Identifier: Apache-2.0

// Package fabriccontrol joins fabrics of package infiniband to the packages that show and operate them:
// fabricview and fabricconsole.
package fabriccontrol

import (
	"fmt"
	"time"

	"github.com/ramjet-rdma/ramjet/infiniband"
	"github.com/ramjet-rdma/ramjet/internal/app/fabricview"
	"github.com/ramjet-rdma/ramjet/internal/core/fabric"
	"github.com/ramjet-rdma/ramjet/internal/engine/node"
	"github.com/ramjet-rdma/ramjet/internal/engine/topology"
)

// Planned returns the view of a topology file, or else of a shape, that does not run.
func Planned(file, shape string) (*fabricview.View, error) {
	var t *topology.Topology
	var err error
	if file != "" {
		t, err = fabric.ReadTopology(file, 0)
	} else {
		t, err = topology.Generate(shape)
	}
	if err == nil {
		err = t.Validate()
	}
	if err != nil {
		return nil, err
	}
	return fabricview.FromTopology(t), nil
}

// View returns the view of a running fabric.
func View(v *infiniband.FabricView) *fabricview.View {
	shown := &fabricview.View{}
	for i := range v.Nodes {
		shown.Nodes = append(shown.Nodes, nodeOf(&v.Nodes[i]))
	}
	for _, c := range v.Cables {
		shown.Links = append(shown.Links, fabricview.Link{A: fabricview.End(c.A), B: fabricview.End(c.B),
			ErrorRate: c.ErrorRate})
	}
	return shown
}

func nodeOf(n *infiniband.NodeView) fabricview.Node {
	types := map[infiniband.NodeType]fabricview.NodeType{infiniband.ChannelAdapter: fabricview.Adapter,
		infiniband.Switch: fabricview.Switch, infiniband.Router: fabricview.Router}
	shown := fabricview.Node{Name: n.Name, Type: types[n.Type], GUID: fabricview.GUID(n.GUID), Off: n.Off, IP: n.IP}
	if n.Text != n.Name {
		shown.Description = n.Text
	}
	if n.Type == infiniband.Switch {
		shown.LID = n.LID
	}
	for i := range n.Ports {
		p := &n.Ports[i]
		c := &p.Counters
		state := fabricview.State(node.LinkState(p.State).String())
		port := fabricview.Port{Number: p.Number, State: state, Held: p.Held,
			Far: p.Remote, Pulled: p.Pulled, Counters: fabricview.Counters{
				XmitData: 4 * c.XmitData, RcvData: 4 * c.RcvData, XmitPackets: c.XmitPkts, RcvPackets: c.RcvPkts,
				XmitWait: c.XmitWait, XmitDiscards: c.XmitDiscards, RcvErrors: c.RcvErrors,
				SymbolErrors: c.SymbolErrors, LinkDowned: c.LinkDowned, VL15Dropped: c.VL15Dropped,
				LanePackets: c.LanePkts,
			}}
		if n.Type != infiniband.Switch {
			port.LID, port.GUID = p.LID, fabricview.GUID(p.GUID)
		}
		if port.State != fabricview.Down && p.Width != 0 && p.Speed != "" {
			port.Rate, port.Mbps = fmt.Sprintf("%dx%s", p.Width, p.Speed), p.Mbps
		}
		shown.Ports = append(shown.Ports, port)
	}
	return shown
}

// addLoads sets the traffic of each port since an earlier view, and the share of its rate that it has sent.
// Software moves packets as fast as it can, which may be faster than the link's rate.
func addLoads(v, before *fabricview.View, passed time.Duration) {
	for i := range v.Nodes {
		if i >= len(before.Nodes) || before.Nodes[i].Name != v.Nodes[i].Name {
			return
		}
		for j := range v.Nodes[i].Ports {
			p, was := &v.Nodes[i].Ports[j], &before.Nodes[i].Ports[j]
			addTraffic(p, &was.Counters, passed.Seconds())
		}
	}
	v.Measured = passed
}

// addTraffic sets the traffic of a port in some seconds.
func addTraffic(p *fabricview.Port, was *fabricview.Counters, seconds float64) {
	c := &p.Counters
	since := func(now, before uint64) float64 {
		if now < before { // it was cleared
			return 0
		}
		return float64(now-before) / seconds
	}
	t := &p.Traffic
	t.Sent, t.SentPackets = since(c.XmitData, was.XmitData), since(c.XmitPackets, was.XmitPackets)
	t.Received, t.ReceivedPackets = since(c.RcvData, was.RcvData), since(c.RcvPackets, was.RcvPackets)
	t.Waiting = min(1, since(c.XmitWait, was.XmitWait)*node.WaitTick/1e9)
	if p.Mbps > 0 {
		p.Load = 8 * t.Sent / (float64(p.Mbps) * 1e6)
	}
}

// routeOf returns a route on a view: hops are the ports by which packets leave nodes.
func routeOf(v *fabricview.View, from, to fabricview.End, hops []infiniband.End, arrives bool) *fabricview.Route {
	r := &fabricview.Route{From: from, To: to}
	other := make(map[fabricview.End]fabricview.End)
	for _, l := range v.Links {
		other[l.A], other[l.B] = l.B, l.A
	}
	last := from.Node
	for _, h := range hops {
		out := fabricview.End(h)
		next, ok := other[out]
		if !ok { // it was pulled just now
			break
		}
		r.Hops, last = append(r.Hops, fabricview.Hop{From: out, To: next}), next.Node
	}
	lastOff := false
	for i := range v.Nodes {
		n := &v.Nodes[i]
		lastOff = lastOff || n.Name == last && n.Off
		for _, p := range n.Ports {
			switch (fabricview.End{Node: n.Name, Port: p.Number}) {
			case from:
				r.FromLID = p.LID
			case to:
				r.ToLID = p.LID
			}
		}
	}
	switch {
	case from == to, arrives && len(r.Hops) == len(hops):
	case r.ToLID == 0:
		r.Broken = fmt.Sprintf("%v has no LID yet", to)
	case len(r.Hops) == 0:
		r.Broken = fmt.Sprintf("port %d of %s is not active", from.Port, from.Node)
	case lastOff:
		r.Broken = fmt.Sprintf("%s is down", last)
	default:
		r.Broken = fmt.Sprintf("%s has no way on to LID %d: no entry in its table, or a port that is not active", last,
			r.ToLID)
	}
	return r
}
