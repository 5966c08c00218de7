// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/ramjet-rdma/ramjet/internal/engine/node"
)

// Generated nodes have GUIDs by this scheme, locally administered as EUI-64 (section 4.1.1):
//
//	 63                    32 31    24 23             8 7        0
//	+------------------------+--------+----------------+----------+
//	|     02 52 4a 54        |  kind  |     number     |   port   |
//	+------------------------+--------+----------------+----------+
//
// The kind is 0x10 for adapters, and for switches 0x20 and the level, from 1; 0 where there are no
// levels. The number is the one in the node's name, from 1. The port is 0 in the GUID of a node.
const (
	guidBase    = 0x02524a54_00000000
	vendor      = guidBase >> 40 // of the GUIDs: no organization has it, it is locally administered
	kindAdapter = 0x10
	kindSwitch  = 0x20
)

func guid(kind, number int) uint64 { return guidBase | uint64(kind)<<24 | uint64(number)<<8 }

// levels are the names of switches by their level; higher ones are called level4-1 and so on.
var levels = [...]string{"", "leaf", "spine", "core"}

// maxGenerated bounds the nodes that a few digits can ask for.
const maxGenerated = 20_000

// builder collects a generated topology.
type builder struct {
	Topology
}

// add adds a node and returns its index.
func (b *builder) add(t node.Type, name string, guid uint64, ports int) int {
	n := Node{Type: t, Name: name, GUID: guid, SystemGUID: guid, VendorID: vendor, Ports: make([]Port, ports+1)}
	for num := range n.Ports {
		if n.hasGUID(num) {
			n.Ports[num].GUID = guid + uint64(num)
		}
	}
	b.Nodes = append(b.Nodes, n)
	return len(b.Nodes) - 1
}

func (b *builder) adapter(number, ports int) int {
	return b.add(node.CA, "host-"+strconv.Itoa(number), guid(kindAdapter, number), ports)
}

func (b *builder) switchAt(level, number, ports int) int {
	name := "switch"
	if level > 0 && level < len(levels) {
		name = levels[level]
	} else if level > 0 {
		name = "level" + strconv.Itoa(level)
	}
	return b.add(node.Switch, name+"-"+strconv.Itoa(number), guid(kindSwitch+level, number), ports)
}

func (b *builder) link(n, p, m, q int) { b.Links = append(b.Links, Link{A: End{n, p}, B: End{m, q}}) }

func (b *builder) done() *Topology {
	b.sortLinks()
	return &b.Topology
}

// Pair returns two switches with two cables between them, and two adapters at each: the smallest
// fabric in which a cable may fail.
func Pair() *Topology {
	var b builder
	for s := range 2 {
		b.switchAt(0, s+1, 4)
	}
	b.link(0, 3, 1, 3)
	b.link(0, 4, 1, 4)
	for h := range 4 {
		b.link(b.adapter(h+1, 1), 1, h/2, 1+h%2)
	}
	return b.done()
}

// Star returns one switch and adapters at it.
func Star(adapters int) (*Topology, error) {
	if adapters < 1 || adapters > MaxPorts {
		return nil, fmt.Errorf("topology: a star of %d adapters: between 1 and %d are possible, the ports of a switch",
			adapters, MaxPorts)
	}
	var b builder
	b.switchAt(0, 1, adapters)
	for h := range adapters {
		b.link(b.adapter(h+1, 1), 1, 0, h+1)
	}
	return b.done(), nil
}

// Line returns switches in a row, each with adapters at its first ports. The last port but one goes to
// the switch before, the last one to the switch behind.
func Line(switches, adapters int) (*Topology, error) {
	return row("line", switches, adapters, 1, false)
}

// Ring is Line with the last switch connected to the first. It has at least three switches.
func Ring(switches, adapters int) (*Topology, error) { return row("ring", switches, adapters, 3, true) }

func row(shape string, switches, adapters, least int, closed bool) (*Topology, error) {
	if switches < least || adapters < 0 || adapters > MaxPorts-2 || switches*(1+adapters) > maxGenerated {
		return nil, fmt.Errorf("topology: a %s of %d switches with %d adapters each: at least %d switches, at most %d adapters each and %d nodes are possible",
			shape, switches, adapters, least, MaxPorts-2, maxGenerated)
	}
	var b builder
	for s := range switches {
		b.switchAt(0, s+1, adapters+2)
		if s > 0 {
			b.link(s-1, adapters+2, s, adapters+1)
		}
	}
	if closed {
		b.link(switches-1, adapters+2, 0, adapters+1)
	}
	for h := range switches * adapters {
		b.link(b.adapter(h+1, 1), 1, h/adapters, 1+h%adapters)
	}
	return b.done(), nil
}

// FatTree returns a k-ary n-tree (Petrini and Vanneschi, 1997): k^n adapters under n levels of k^(n-1)
// switches each. Every switch has k ports down and, but for the highest level, k ports up. FatTree(10,
// 3) has 1,000 adapters and 300 switches.
func FatTree(k, levels int) (*Topology, error) {
	if k < 1 || k > MaxPorts/2 || levels < 1 || levels > 8 {
		return nil, fmt.Errorf("topology: a fat tree with %d ports down in %d levels: between 1 and %d ports in 1 to 8 levels are possible", k, levels, MaxPorts/2)
	}
	down, up := make([]int, levels), make([]int, levels)
	for i := range down {
		down[i], up[i] = k, k
	}
	up[0] = 1
	return XGFT(down, up)
}

// XGFT returns an extended generalized fat tree (Öhring, Ibel, Das and Kumar, 1995). A switch of
// level i, from 1, has down[i-1] children, and a node of the level below has up[i-1] parents: up[0]
// is how many ports an adapter has. XGFT({10, 8}, {1, 5}) has 80 adapters, 8 leaf switches with 10
// adapters each, and 5 spine switches.
func XGFT(down, up []int) (*Topology, error) {
	x := xgft{down, up}
	if err := x.check(); err != nil {
		return nil, err
	}
	var b builder
	first := make([]int, len(down)+1) // of each level, in Nodes
	for level := len(down); level >= 1; level-- {
		first[level] = len(b.Nodes)
		for i := range x.count(level) {
			b.switchAt(level, i+1, x.radix(level))
		}
	}
	first[0] = len(b.Nodes)
	for i := range x.count(0) {
		b.adapter(i+1, up[0])
	}
	for level := range down {
		for i := range x.count(level) {
			child, digit := x.split(level, i)
			for parent := range up[level] {
				port := parent + 1
				if level > 0 {
					port += down[level-1]
				}
				b.link(first[level]+i, port, first[level+1]+child.parent(parent), digit+1)
			}
		}
	}
	return b.done(), nil
}

// AddPorts gives each switch spare ports more, behind its other ports: cables may be plugged in there.
func (t *Topology) AddPorts(spare int) error {
	for i := range t.Nodes {
		n := &t.Nodes[i]
		if n.Type != node.Switch {
			continue
		}
		if spare < 0 || n.NumPorts()+spare > MaxPorts {
			return fmt.Errorf("topology: switch %q has %d ports, and cannot have %d more: 0 to %d are possible", n.Name,
				n.NumPorts(), spare, MaxPorts-n.NumPorts())
		}
		n.Ports = append(n.Ports, make([]Port, spare)...)
	}
	return nil
}

// xgft is the numbering of an extended generalized fat tree. A node of level i is h digits, the
// highest first: digit j counts children (below down[j]) where j is i or above, and parents (below
// up[j]) under it.
type xgft struct{ down, up []int }

func (x xgft) check() error {
	if len(x.down) < 1 || len(x.down) != len(x.up) || len(x.down) > 8 {
		return fmt.Errorf("topology: a fat tree with %d levels of children and %d of parents: between 1 and 8 are possible, and as many of each", len(x.down), len(x.up))
	}
	for i := range x.down {
		if x.down[i] < 1 || x.up[i] < 1 || x.down[i] > MaxPorts || x.up[i] > MaxPorts {
			return fmt.Errorf("topology: level %d of the fat tree has %d children and %d parents: between 1 and %d are possible", i+1, x.down[i], x.up[i], MaxPorts)
		}
	}
	nodes := 0
	for level := range len(x.down) + 1 {
		if nodes += x.count(level); nodes > maxGenerated {
			return fmt.Errorf("topology: the fat tree has more than %d nodes: take fewer levels or ports", maxGenerated)
		}
		if level > 0 && x.radix(level) > MaxPorts {
			return fmt.Errorf("topology: switches of level %d would have %d ports: %d are possible", level,
				x.radix(level), MaxPorts)
		}
	}
	return nil
}

// count returns how many nodes a level has, at most a little above maxGenerated.
func (x xgft) count(level int) int {
	n := 1
	for j := range x.down {
		if j >= level {
			n *= x.down[j]
		} else {
			n *= x.up[j]
		}
		n = min(n, maxGenerated+1)
	}
	return n
}

// radix returns how many ports the switches of a level have.
func (x xgft) radix(level int) int {
	if level == len(x.down) {
		return x.down[level-1]
	}
	return x.down[level-1] + x.up[level]
}

// upward is the part of their number that a node's parents have in common: all but one digit.
type upward struct{ high, low, weight, digit int }

// split takes the digit out of a node's number that tells it from its siblings.
func (x xgft) split(level, i int) (upward, int) {
	weight := 1
	for j := range level {
		weight *= x.up[j]
	}
	low, rest := i%weight, i/weight
	return upward{high: rest / x.down[level], low: low, weight: weight, digit: x.up[level]}, rest % x.down[level]
}

// parent returns the number of a parent within its level.
func (u upward) parent(i int) int { return (u.high*u.digit+i)*u.weight + u.low }

// Generate returns the topology that a short text names: "pair", "star:8", "line:4,2" and "ring:4,2"
// (switches, and adapters at each: 1 if it is not said), "fat-tree:4,3" (ports down, levels), or
// "xgft:10,8;1,5" (children of each level; parents).
func Generate(text string) (*Topology, error) {
	shape, numbers, _ := strings.Cut(text, ":")
	lists, err := numberLists(numbers)
	if err != nil {
		return nil, fmt.Errorf("topology: %q: %w", text, err)
	}
	first := lists[0]
	switch {
	case shape == "pair" && numbers == "":
		return Pair(), nil
	case shape == "xgft" && len(lists) == 2:
		return XGFT(first, lists[1])
	case len(lists) > 1:
	case shape == "star" && len(first) == 1:
		return Star(first[0])
	case (shape == "line" || shape == "ring") && (len(first) == 1 || len(first) == 2):
		if len(first) == 1 {
			first = append(first, 1)
		}
		if shape == "ring" {
			return Ring(first[0], first[1])
		}
		return Line(first[0], first[1])
	case shape == "fat-tree" && len(first) == 2:
		return FatTree(first[0], first[1])
	}
	return nil, fmt.Errorf("topology: %q is none that can be made: there are pair, star:8, line:4,2, ring:4,2, fat-tree:4,3 and xgft:10,8;1,5", text)
}

// numberLists reads "1,2;3,4". Empty text is one empty list.
func numberLists(s string) (lists [][]int, err error) {
	if s == "" {
		return [][]int{nil}, nil
	}
	for list := range strings.SplitSeq(s, ";") {
		var numbers []int
		for word := range strings.SplitSeq(list, ",") {
			v, err := strconv.ParseUint(strings.TrimSpace(word), 10, 16)
			if err != nil {
				return nil, fmt.Errorf("%q is no number from 0 to 65535", word)
			}
			numbers = append(numbers, int(v))
		}
		lists = append(lists, numbers)
	}
	return lists, nil
}
