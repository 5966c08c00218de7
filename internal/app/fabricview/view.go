// SPDX-License-Identifier: Apache-2.0

// Package fabricview shows an InfiniBand fabric: as text for a terminal, and as a picture in SVG.
//
// Its input is a [View], a snapshot of a fabric, which can be passed between processes as JSON. Names of nodes are
// unique in a View; links and routes refer to nodes by name.
package fabricview

import (
	"fmt"
	"regexp"
	"strconv"
	"time"
)

// View is a snapshot of a fabric.
type View struct {
	Nodes []Node `json:"nodes"`
	Links []Link `json:"links"`
	// Route is drawn over the links; nil: none.
	Route *Route `json:"route,omitempty"`
	// Measured is the time over which traffic was measured; 0: it was not.
	Measured time.Duration `json:"measured_ns,omitempty"`
}

// Traffic is the rates at which a port has sent and received lately.
type Traffic struct {
	Sent            float64 `json:"sent_bytes_per_second"` // bytes
	SentPackets     float64 `json:"sent_packets_per_second"`
	Received        float64 `json:"received_bytes_per_second"` // bytes
	ReceivedPackets float64 `json:"received_packets_per_second"`
	// Waiting is the share of the time, 0 to 1, that packets waited for credits.
	Waiting float64 `json:"waiting_share"`
}

// NodeType is the type of a node.
type NodeType string

const (
	Adapter NodeType = "ca"
	Switch  NodeType = "switch"
	Router  NodeType = "router"
)

// State is the logical state of a port (IBTA section 7.2.7), or Planned.
type State string

const (
	Planned    State = "" // of a fabric that is not running
	Down       State = "Down"
	Initialize State = "Initialize"
	Armed      State = "Armed"
	Active     State = "Active"
)

// GUID is a GUID; as text it has 0x and 16 digits.
type GUID uint64

func (g GUID) String() string { return fmt.Sprintf("0x%016x", uint64(g)) }

// MarshalText implements encoding.TextMarshaler.
func (g GUID) MarshalText() ([]byte, error) { return []byte(g.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (g *GUID) UnmarshalText(text []byte) error {
	v, err := strconv.ParseUint(string(text), 0, 64)
	if err != nil {
		return fmt.Errorf("%q is not a GUID: write it as 0x0002c90300293e1e", text)
	}
	*g = GUID(v)
	return nil
}

// Node is an adapter, a switch or a router.
type Node struct {
	Name        string   `json:"name"`
	Type        NodeType `json:"type"`
	Description string   `json:"description,omitempty"`
	GUID        GUID     `json:"guid"`
	LID         uint16   `json:"lid,omitempty"` // a switch's; an adapter's ports have their own
	IP          string   `json:"ip,omitempty"`  // an adapter's address, in a running fabric
	Off         bool     `json:"off,omitempty"` // powered off
	Ports       []Port   `json:"ports"`         // external ports, by number
}

// Port is an external port.
type Port struct {
	Number   int      `json:"port"`
	GUID     GUID     `json:"guid,omitempty"`
	LID      uint16   `json:"lid,omitempty"`
	State    State    `json:"state,omitempty"`
	Rate     string   `json:"rate,omitempty"` // width and speed, such as 4xEDR; empty: the link is down
	Mbps     int64    `json:"mbps,omitempty"` // the same, as 10^6 bits of data a second
	Load     float64  `json:"load,omitempty"` // share of the rate that the port sent lately; software may exceed 1
	Traffic  Traffic  `json:"traffic"`
	Held     []int    `json:"held,omitempty"`   // VLs whose credits the port withholds
	Far      string   `json:"far,omitempty"`    // other end of a cable to another host's fabric; empty: none
	Pulled   bool     `json:"pulled,omitempty"` // that cable was pulled, and can be plugged in again
	Counters Counters `json:"counters"`
}

// Counters are the counters of a port. Data is in bytes.
type Counters struct {
	XmitData     uint64 `json:"xmit_data_bytes"`
	RcvData      uint64 `json:"rcv_data_bytes"`
	XmitPackets  uint64 `json:"xmit_packets"`
	RcvPackets   uint64 `json:"rcv_packets"`
	XmitWait     uint64 `json:"xmit_wait,omitempty"`
	XmitDiscards uint64 `json:"xmit_discards,omitempty"`
	RcvErrors    uint64 `json:"rcv_errors,omitempty"`
	SymbolErrors uint64 `json:"symbol_errors,omitempty"`
	LinkDowned   uint64 `json:"link_downed,omitempty"`
	VL15Dropped  uint64 `json:"vl15_dropped,omitempty"`
	LanePackets  uint64 `json:"lane_packets"` // on data lanes, both directions: all but subnet management
}

// End is an end of a link: a node's port.
type End struct {
	Node string `json:"node"`
	Port int    `json:"port"`
}

func (e End) String() string { return fmt.Sprintf("%s[%d]", e.Node, e.Port) }

// Link is a cable. Its state and load follow from the ports at its ends.
type Link struct {
	A         End     `json:"a"`
	B         End     `json:"b"`
	ErrorRate float64 `json:"error_rate,omitempty"` // share of packets that the cable corrupts
}

// Route is the path of a packet from one port to another.
type Route struct {
	From    End    `json:"from"`
	To      End    `json:"to"`
	FromLID uint16 `json:"from_lid"`
	ToLID   uint16 `json:"to_lid"`
	// Hops are the links of the path, as far as it goes.
	Hops []Hop `json:"hops"`
	// Broken is why the path ends before its destination; empty: it arrives.
	Broken string `json:"broken,omitempty"`
}

// Hop is a link of a route, from an output port to the port at its other end.
type Hop struct {
	From End `json:"from"`
	To   End `json:"to"`
}

var discovered = regexp.MustCompile(`^[SHR]-[0-9a-f]{16}$`)

// Label returns the node's name for people: its name, or its description if the name is only a GUID, as in files of
// ibnetdiscover.
func (n *Node) Label() string {
	if n.Description != "" && discovered.MatchString(n.Name) {
		return n.Description
	}
	return n.Name
}

// port returns a port by its number; nil: there is none.
func (n *Node) port(number int) *Port {
	if i := number - 1; i >= 0 && i < len(n.Ports) && n.Ports[i].Number == number {
		return &n.Ports[i]
	}
	for i := range n.Ports {
		if n.Ports[i].Number == number {
			return &n.Ports[i]
		}
	}
	return nil
}

// index finds nodes by name and links by their ends.
type index struct {
	view   *View
	nodes  map[string]int
	links  map[End]int
	labels []string // of the nodes: see label
	peak   float64
}

func (v *View) index() *index {
	x := &index{v, make(map[string]int, len(v.Nodes)), make(map[End]int, 2*len(v.Links)), make([]string, len(v.Nodes)),
		v.peak()}
	same := make(map[string]int)
	for i := range v.Nodes {
		x.nodes[v.Nodes[i].Name] = i
		same[v.Nodes[i].Label()]++
	}
	for i := range v.Nodes {
		n := &v.Nodes[i]
		if x.labels[i] = n.Label(); same[x.labels[i]] > 1 {
			x.labels[i] = n.tail() + " " + x.labels[i]
		}
	}
	for i, l := range v.Links {
		x.links[l.A], x.links[l.B] = i, i
	}
	return x
}

// port returns the port at an end; a port in state Down if the view has none.
func (x *index) port(e End) *Port {
	if i, ok := x.nodes[e.Node]; ok {
		if p := x.view.Nodes[i].port(e.Port); p != nil {
			return p
		}
	}
	return &Port{Number: e.Port, State: Down}
}

// tail returns the end of the node's GUID, which tells apart nodes that have the same description.
func (n *Node) tail() string { return fmt.Sprintf("%06x", uint64(n.GUID)&0xffffff) }

// label returns the label of the node at an end. Nodes with equal labels are prefixed with the end of their GUIDs.
func (x *index) label(e End) string {
	if i, ok := x.nodes[e.Node]; ok {
		return x.labels[i]
	}
	return e.Node
}

// peer returns the other end of the link at a port.
func (x *index) peer(e End) (End, bool) {
	i, ok := x.links[e]
	if !ok {
		return End{}, false
	}
	if l := x.view.Links[i]; l.A == e {
		return l.B, true
	} else {
		return l.A, true
	}
}

// lid returns the LID by which the node at an end is reached.
func (x *index) lid(e End) uint16 {
	i, ok := x.nodes[e.Node]
	if !ok {
		return 0
	}
	if n := &x.view.Nodes[i]; n.Type == Switch {
		return n.LID
	}
	return x.port(e).LID
}

// linkState is the state of a link: the lesser of its ports'.
func (x *index) linkState(l *Link) State {
	order := []State{Down, Initialize, Armed, Active}
	a, b := x.port(l.A).State, x.port(l.B).State
	for _, s := range order {
		if a == s || b == s {
			return s
		}
	}
	return Planned
}

// quiet is the least peak rate in bytes per second: below it nothing counts as busy.
const quiet = 1e6

// peak returns the rate of the busiest port in bytes per second, at least quiet.
func (v *View) peak() float64 {
	peak := float64(quiet)
	for i := range v.Nodes {
		for j := range v.Nodes[i].Ports {
			peak = max(peak, v.Nodes[i].Ports[j].Traffic.Sent)
		}
	}
	return peak
}

// share returns the rate of a port as a share of the busiest port's, for bars that compare ports.
func (x *index) share(p *Port) float64 {
	if x.view.Measured == 0 {
		return 0
	}
	return p.Traffic.Sent / x.peak
}

// load returns a link's traffic as a share of its rate: the greater one of both directions. In software it may be
// more than 1.
func (x *index) load(l *Link) float64 {
	if x.view.Measured == 0 {
		return 0
	}
	return max(x.port(l.A).Load, x.port(l.B).Load)
}
