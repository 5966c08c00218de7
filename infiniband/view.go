// SPDX-License-Identifier: Apache-2.0

package infiniband

import (
	"github.com/ramjet-rdma/ramjet/internal/core/fabric"
	"github.com/ramjet-rdma/ramjet/internal/engine/node"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// End names a port of a node, at which a cable may be plugged in.
type End struct {
	Node string // the node's name, such as leaf-1
	Port int    // from 1 on
}

// String returns the form in which topology files and the console name a port: leaf-1[3].
func (e End) String() string { return fabric.End(e).String() }

// FabricView is a snapshot of a fabric: see [Fabric.View] and [View].
type FabricView struct {
	Nodes  []NodeView
	Cables []CableView // between nodes of the fabric; a cable to another process is the Remote of a port
}

// NodeView is a node at the time of a snapshot.
type NodeView struct {
	Name     string
	Type     NodeType
	GUID     uint64
	Text     string // its NodeDescription
	LID      uint16 // of a switch; an adapter's are in Ports
	Off      bool   // a switch that [Fabric.Power] has switched off
	IP       string // an adapter's address
	Programs int    // attached to an adapter
	// Dropped counts packets for programs at an adapter that had received nothing for a second.
	Dropped uint64
	Ports   []PortView // from port 1 on
}

// Adapter reports whether the node is a channel adapter.
func (n *NodeView) Adapter() bool { return n.Type == ChannelAdapter }

// NodeType is the type of a node (section 14.2.5.3).
type NodeType uint8

const (
	ChannelAdapter NodeType = iota + 1
	Switch
	Router
)

// String returns the name of the type, such as channel adapter.
func (t NodeType) String() string { return node.Type(t).String() }

// PortView is a port at the time of a snapshot.
type PortView struct {
	Number int
	GUID   uint64 // of an adapter's port
	GID    verbs.GID
	LID    uint16 // 0: the subnet manager has assigned none
	State  verbs.PortState
	Width  int    // lanes of the link: 1, 2, 4, 8 or 12; 0: there has been none
	Speed  string // of a lane: SDR, DDR, QDR, FDR, EDR, HDR or NDR; empty: there has been no link
	Mbps   int64  // rate of data on the link, in 10^6 bits a second
	Held   []int  // lanes whose credits are withheld: see [Fabric.HoldCredits]
	// Remote is the other end of a cable to another process. Pulled: that cable is an adapter's, and was pulled;
	// [Fabric.Relink] plugs it in again.
	Remote   string
	Pulled   bool
	Counters PortCounters
}

// Active reports whether the port is active, so that data can be sent.
func (p *PortView) Active() bool { return p.State == verbs.PortActive }

// PortCounters are the counters of a port, as performance management has them (sections 16.1.3.5 and 16.1.4.11). All
// have 64 bits here. [Fabric.ClearCounters] sets them to 0.
type PortCounters struct {
	XmitData, RcvData       uint64 // in units of 4 bytes, with headers, without the VCRC and flow control
	XmitPkts, RcvPkts       uint64
	UnicastXmit, UnicastRcv uint64
	MulticastXmit           uint64
	MulticastRcv            uint64

	SymbolErrors         uint64
	LinkErrorRecovery    uint64
	LinkDowned           uint64
	RcvErrors            uint64 // packets with a bad VCRC, ICRC or length, or to a port that took none
	RcvRemotePhysical    uint64 // packets that their sender marked as bad
	RcvSwitchRelayErrors uint64 // packets without a route, or whose route leads back
	XmitDiscards         uint64 // port not active, head-of-queue lifetime over, or too long for the other end
	XmitConstraint       uint64 // packets that partition enforcement kept from being sent
	RcvConstraint        uint64 // packets that partition enforcement kept from being received
	LocalIntegrity       uint64
	BufferOverrun        uint64 // packets beyond the credits
	VL15Dropped          uint64
	XmitWait             uint64 // in units of 4 ns: for how long there was something to send, and no credit

	// LanePkts counts packets on data lanes, sent and received, which excludes subnet management. Performance
	// management has no such counter.
	LanePkts uint64
}

// CableView is a cable between two ports of the fabric.
type CableView struct {
	A, B      End
	ErrorRate float64 // see [Fabric.SetErrorRate]
}

// newView returns the view that users get.
func newView(v *fabric.View) *FabricView {
	made := &FabricView{Nodes: make([]NodeView, len(v.Nodes)), Cables: make([]CableView, len(v.Cables))}
	for i := range v.Nodes {
		n := &v.Nodes[i]
		made.Nodes[i] = NodeView{Name: n.Name, Type: NodeType(n.Type), GUID: n.GUID, Text: n.Text, LID: n.LID,
			Off: n.Off, IP: n.IP, Programs: n.Programs, Dropped: n.Dropped, Ports: make([]PortView, len(n.Ports))}
		for j := range n.Ports {
			made.Nodes[i].Ports[j] = newPortView(&n.Ports[j])
		}
	}
	for i, c := range v.Cables {
		made.Cables[i] = CableView{A: End(c.A), B: End(c.B), ErrorRate: c.ErrorRate}
	}
	return made
}

func newPortView(p *fabric.PortView) PortView {
	made := PortView{Number: p.Number, GUID: p.GUID, GID: p.GID, LID: p.LID, State: verbs.PortState(p.State),
		Width: p.Width.Lanes(), Mbps: p.Mbps, Held: p.Held, Remote: p.Remote, Pulled: p.Pulled,
		Counters: PortCounters(p.Counters)}
	if p.Speed != 0 {
		made.Speed = p.Speed.String()
	}
	return made
}

// endsOf returns ports as users name them.
func endsOf(list []fabric.End) []End {
	if list == nil {
		return nil
	}
	made := make([]End, len(list))
	for i, e := range list {
		made[i] = End(e)
	}
	return made
}
