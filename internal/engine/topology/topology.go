// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/ramjet-rdma/ramjet/internal/engine/node"
)

const (
	// MaxNodes limits the nodes of a topology: each needs a unicast LID (section 4.1.3).
	MaxNodes = int(node.FirstMulticastLID) - 1
	// MaxPorts limits the ports of a node: 255 in a forwarding table means no route.
	MaxPorts = 254
	// MaxName limits the length of a node's name and description, in bytes (section 14.2.5.2).
	MaxName = 64

	maxAllPorts = 1 << 20
)

// Topology is the description of a fabric: nodes and cables.
type Topology struct {
	Nodes []Node
	// Links are sorted by their ends, and each has its lesser end in A.
	Links []Link
	// Commands are for the console, once the fabric runs.
	Commands []Command
}

// Node is a channel adapter, a switch or a router.
type Node struct {
	Type        node.Type
	Name        string // by which the text refers to the node
	Description string // NodeDescription; empty: the name. A text that repeats the name gives empty
	GUID        uint64
	SystemGUID  uint64
	VendorID    uint32 // 24 bits
	DeviceID    uint16
	// Ports has the external ports from index 1 on. Index 0 is a switch's management port, and unused
	// otherwise.
	Ports []Port
}

// Port is the description of a port. External ports of switches have neither a GUID nor a LID.
type Port struct {
	GUID uint64
	LID  uint16 // 0: the subnet manager chooses
	LMC  uint8
}

// End is one end of a cable: a port of Topology.Nodes[Node].
type End struct {
	Node, Port int
}

// Link is a cable.
type Link struct {
	A, B  End
	Width node.Width // at which it runs; 0: the best that both ports can do
	Speed node.Speed // likewise
}

// Command is a line for the console of the running fabric.
type Command struct {
	File string
	Line int
	Text string
}

// Error is an error in a line of a topology.
type Error struct {
	File string
	Line int
	Text string
}

func (e *Error) Error() string { return fmt.Sprintf("%s:%d: %s", e.File, e.Line, e.Text) }

// NumPorts returns how many external ports the node has.
func (n *Node) NumPorts() int { return len(n.Ports) - 1 }

// describe returns the node's description.
func (n *Node) describe() string {
	if n.Description == "" {
		return n.Name
	}
	return n.Description
}

// Find returns the index of the node with a name or, if there is none, with a description that no
// other node has; -1: there is neither.
func (t *Topology) Find(name string) int {
	byDescription := -1
	for i := range t.Nodes {
		if t.Nodes[i].Name == name {
			return i
		}
		if t.Nodes[i].Description == name {
			if byDescription >= 0 {
				byDescription = -2
			} else if byDescription == -1 {
				byDescription = i
			}
		}
	}
	return max(byDescription, -1)
}

// Validate reports errors that keep the topology from being built or written: missing or duplicate names and GUIDs,
// ports that do not exist or have two cables.
func (t *Topology) Validate() error {
	if len(t.Nodes) > MaxNodes {
		return fmt.Errorf("topology: %d nodes: a subnet has addresses for %d", len(t.Nodes), MaxNodes)
	}
	names, guids, ports := make(map[string]bool), make(map[uint64]string), make(map[uint64]string)
	for i := range t.Nodes {
		n := &t.Nodes[i]
		if err := n.validate(); err != nil {
			return err
		}
		if names[n.Name] {
			return fmt.Errorf("topology: two nodes are called %q", n.Name)
		}
		names[n.Name] = true
		if other, taken := guids[n.GUID]; taken {
			return fmt.Errorf("topology: %q and %q have the same GUID, %#x", other, n.Name, n.GUID)
		}
		guids[n.GUID] = n.Name
		for num := range n.Ports {
			if !n.hasGUID(num) {
				continue
			}
			if other, taken := ports[n.Ports[num].GUID]; taken {
				return fmt.Errorf("topology: ports of %q and %q have the same GUID, %#x", other, n.Name,
					n.Ports[num].GUID)
			}
			ports[n.Ports[num].GUID] = n.Name
		}
	}
	for _, c := range t.Commands {
		if c.Text == "" || c.Text != strings.Trim(c.Text, " \t\r") || strings.Contains(c.Text, "\n") {
			return fmt.Errorf("topology: the command %q is not one line", c.Text)
		}
	}
	return t.validateLinks()
}

func (n *Node) validate() error {
	switch {
	case n.Type != node.CA && n.Type != node.Switch && n.Type != node.Router:
		return fmt.Errorf("topology: node %q is a %v: adapters, switches and routers are known", n.Name, n.Type)
	case checkName(n.Name) != nil:
		return fmt.Errorf("topology: %w", checkName(n.Name))
	case n.Description != cleanDescription(n.Description):
		return fmt.Errorf("topology: the description of %q is too long or has control characters", n.Name)
	case n.NumPorts() < 1 || n.NumPorts() > MaxPorts:
		return fmt.Errorf("topology: node %q has %d ports: between 1 and %d are possible", n.Name, n.NumPorts(),
			MaxPorts)
	case n.GUID == 0 || n.SystemGUID == 0:
		return fmt.Errorf("topology: node %q has no GUID", n.Name)
	case guidInName(n) != 0 && guidInName(n) != n.GUID:
		return fmt.Errorf("topology: the name %q has another GUID in it than the node, %#x", n.Name, n.GUID)
	case n.VendorID >= 1<<24:
		return fmt.Errorf("topology: VendorID %#x of %q has more than 24 bits", n.VendorID, n.Name)
	}
	for num, p := range n.Ports {
		if has := n.hasGUID(num); has != (p.GUID != 0) || !has && p != (Port{}) || p.LID >= node.FirstMulticastLID ||
			p.LMC > 7 {
			return fmt.Errorf("topology: port %d of %q: GUID %#x, LID %d, LMC %d cannot be", num, n.Name, p.GUID, p.LID,
				p.LMC)
		}
	}
	return nil
}

func (t *Topology) validateLinks() error {
	used := make(map[End]bool)
	for i, l := range t.Links {
		for _, e := range []End{l.A, l.B} {
			if e.Node < 0 || e.Node >= len(t.Nodes) || e.Port < 1 || e.Port > t.Nodes[e.Node].NumPorts() {
				return fmt.Errorf("topology: link %d ends at a port that does not exist", i)
			}
			if used[e] {
				return fmt.Errorf("topology: two cables at port %d of %q", e.Port, t.Nodes[e.Node].Name)
			}
			used[e] = true
		}
		if l.Width != l.Width.Widest() || l.Speed != l.Speed.Fastest() {
			return fmt.Errorf("topology: link %d has several widths or speeds", i)
		}
		if l.A.compare(l.B) > 0 || i > 0 && t.Links[i-1].A.compare(l.A) > 0 {
			return errors.New("topology: links are not sorted")
		}
	}
	return nil
}

// hasGUID reports whether a port has a GUID: an adapter's ports have, and a switch's port 0.
func (n *Node) hasGUID(port int) bool { return (n.Type == node.Switch) == (port == 0) }

func (e End) compare(f End) int {
	return cmp.Or(cmp.Compare(e.Node, f.Node), cmp.Compare(e.Port, f.Port))
}

// sortLinks puts the links into their order.
func (t *Topology) sortLinks() {
	for i := range t.Links {
		if l := &t.Links[i]; l.A.compare(l.B) > 0 {
			l.A, l.B = l.B, l.A
		}
	}
	slices.SortFunc(t.Links, func(l, m Link) int { return l.A.compare(m.A) })
}
