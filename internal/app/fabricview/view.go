// SPDX-License-Identifier: Apache-2.0

// Package fabricview shows an InfiniBand fabric: as text for a terminal, and as a picture in SVG.
//
// What is shown is a [View], a copy of what a fabric is at one moment. It travels as JSON, so that a
// running fabric can hand it to another process. Names of nodes are unique in a View; links and
// routes refer to nodes by them.
package fabricview

import (
	"fmt"
	"regexp"
	"strconv"
)

// View is a fabric at one moment.
type View struct {
	Nodes []Node `json:"nodes"`
	Links []Link `json:"links"`
	// Route is drawn over the links; nil: none.
	Route *Route `json:"route,omitempty"`
	// Seconds is over how long traffic was measured; 0: it was not.
	Seconds float64 `json:"measured_seconds,omitempty"`
}

// Traffic is what a port has moved lately, each second.
type Traffic struct {
	Sent            float64 `json:"sent_bytes_per_second"` // bytes
	SentPackets     float64 `json:"sent_packets_per_second"`
	Received        float64 `json:"received_bytes_per_second"` // bytes
	ReceivedPackets float64 `json:"received_packets_per_second"`
	// Waiting is the share of the time, 0 to 1, in which there was something to send and no credit for it.
	Waiting float64 `json:"waiting_share"`
}

// NodeType is what kind of node it is.
type NodeType string

const (
	Adapter NodeType = "ca"
	Switch  NodeType = "switch"
	Router  NodeType = "router"
)

// State is the logical state of a port (IBTA section 7.2.7), or Planned.
type State string

const (
	Planned    State = "" // of a fabric that does not run
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
	IP          string   `json:"ip,omitempty"`  // an adapter's address, of a fabric that runs
	Off         bool     `json:"off,omitempty"` // the switch is down
	Ports       []Port   `json:"ports"`         // the external ones, in the order of their numbers
}

// Port is an external port.
type Port struct {
	Number   int      `json:"port"`
	GUID     GUID     `json:"guid,omitempty"`
	LID      uint16   `json:"lid,omitempty"`
	State    State    `json:"state,omitempty"`
	Rate     string   `json:"rate,omitempty"` // width and speed, such as 4xEDR; empty: the link is down
	Mbps     int64    `json:"mbps,omitempty"` // the same, as 10^6 bits of data a second
	Load     float64  `json:"load,omitempty"` // share of that which the port sent lately; software may send more than 1
	Traffic  Traffic  `json:"traffic"`
	Held     []int    `json:"held,omitempty"` // VLs whose credits the port holds back
	Far      string   `json:"far,omitempty"`  // where a cable to another host's fabric leads; empty: there is none
	Counters Counters `json:"counters"`
}

// Counters are a port's. Data is in bytes.
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
	LanePackets  uint64 `json:"lane_packets"` // of data lanes, both ways: what is not subnet management
}

// End is an end of a link: a node's port.
type End struct {
	Node string `json:"node"`
	Port int    `json:"port"`
}

func (e End) String() string { return fmt.Sprintf("%s[%d]", e.Node, e.Port) }

// Link is a cable. Its state and load are those of the ports at its ends.
type Link struct {
	A         End     `json:"a"`
	B         End     `json:"b"`
	ErrorRate float64 `json:"error_rate,omitempty"` // share of packets that the cable corrupts
}

// Route is the way of a packet from one port to another.
type Route struct {
	From    End    `json:"from"`
	To      End    `json:"to"`
	FromLID uint16 `json:"from_lid"`
	ToLID   uint16 `json:"to_lid"`
	// Hops are the links on the way, as far as it goes.
	Hops []Hop `json:"hops"`
	// Broken says why the way ends before its target; empty: it arrives.
	Broken string `json:"broken,omitempty"`
}

// Hop is a link on a route: a packet leaves a node by a port and comes to another one.
type Hop struct {
	From End `json:"from"`
	To   End `json:"to"`
}

var discovered = regexp.MustCompile(`^[SHR]-[0-9a-f]{16}$`)

// Label returns what people call the node: its name, or its description, where the name is only a
// GUID as in files of ibnetdiscover.
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
	x := &index{v, make(map[string]int, len(v.Nodes)), make(map[End]int, 2*len(v.Links)), make([]string, len(v.Nodes)), v.peak()}
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

// label returns what people call the node at an end: nodes with the same description have the end of
// their GUIDs in front.
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

// quiet is a rate in bytes a second: below it nothing is busy.
const quiet = 1e6

// peak is the rate at which the busiest port sends, in bytes a second, and quiet at least.
func (v *View) peak() float64 {
	peak := float64(quiet)
	for i := range v.Nodes {
		for j := range v.Nodes[i].Ports {
			peak = max(peak, v.Nodes[i].Ports[j].Traffic.Sent)
		}
	}
	return peak
}

// share is what a port sends as a share of what the busiest port does: links of software have no speed of
// their own, and carry what the processors move.
func (x *index) share(p *Port) float64 {
	if x.view.Seconds == 0 {
		return 0
	}
	return p.Traffic.Sent / x.peak
}

// load is the greater of the shares of a link's directions.
func (x *index) load(l *Link) float64 { return max(x.share(x.port(l.A)), x.share(x.port(l.B))) }
