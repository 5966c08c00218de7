// SPDX-License-Identifier: Apache-2.0

package topology

import "github.com/ramjet-rdma/ramjet/internal/engine/node"

// Build returns the nodes, in the order of Nodes, as they are before a subnet manager comes: ports
// down, with the LIDs that the topology has. All are built with the spec; ports at links that have a
// width or a speed can do that one in any case, and have none above it enabled. Connecting the ports
// is up to the link layer.
func (t *Topology) Build(s node.Spec) []*node.Node {
	all := make([]*node.Node, len(t.Nodes))
	for i := range t.Nodes {
		n := &t.Nodes[i]
		made := node.New(n.Type, n.GUID, n.describe(), n.NumPorts(), s)
		made.SystemGUID, made.VendorID, made.DeviceID = n.SystemGUID, n.VendorID, n.DeviceID
		for num := range n.Ports {
			if !n.hasGUID(num) {
				continue
			}
			p := &made.Ports[num]
			p.GUID, p.GUIDs[0] = n.Ports[num].GUID, n.Ports[num].GUID
			p.Address.LID, p.Address.LMC = n.Ports[num].LID, n.Ports[num].LMC
		}
		all[i] = made
	}
	for _, l := range t.Links {
		for _, e := range []End{l.A, l.B} {
			l.limit(&all[e.Node].Ports[e.Port].Link)
		}
	}
	return all
}

// limit makes a port run at the link's width and speed.
func (l *Link) limit(p *node.State) {
	if l.Width != 0 {
		p.WidthSupported |= l.Width
		p.WidthEnabled = p.WidthSupported & upToWidth(l.Width)
	}
	if l.Speed != 0 {
		p.SpeedSupported |= l.Speed
		p.SpeedEnabled = p.SpeedSupported & upToSpeed(l.Speed)
	}
}
