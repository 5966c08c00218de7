// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"strings"
	"testing"

	"github.com/ramjet-rdma/ramjet/internal/engine/node"
)

// hops returns how many cables there are from a node to each other one; -1: no way.
func hops(t *Topology, from int) []int {
	next := make([][]int, len(t.Nodes))
	for _, l := range t.Links {
		next[l.A.Node], next[l.B.Node] = append(next[l.A.Node], l.B.Node), append(next[l.B.Node], l.A.Node)
	}
	d := make([]int, len(t.Nodes))
	for i := range d {
		d[i] = -1
	}
	d[from] = 0
	for queue := []int{from}; len(queue) > 0; queue = queue[1:] {
		for _, n := range next[queue[0]] {
			if d[n] < 0 {
				d[n] = d[queue[0]] + 1
				queue = append(queue, n)
			}
		}
	}
	return d
}

func TestGenerate(t *testing.T) {
	for _, c := range []struct {
		text                      string
		switches, adapters, links int
		diameter                  int // between adapters
	}{
		{"pair", 2, 4, 6, 3},
		{"star:8", 1, 8, 8, 2},
		{"line:4,2", 4, 8, 11, 5},
		{"line:3", 3, 3, 5, 4},
		{"ring:6,1", 6, 6, 12, 5},
		{"fat-tree:2,2", 4, 4, 8, 4},
		{"fat-tree:4,3", 48, 64, 192, 6},
		{"fat-tree:10,3", 300, 1000, 3000, 6},
		{"xgft:10,8;1,5", 13, 80, 120, 4},
		{"xgft:4,4,2;2,2,3", 8*2 + 2*4 + 12, 32, 64 + 32 + 24, 6},
	} {
		top, err := Generate(c.text)
		if err != nil {
			t.Error(err)
			continue
		}
		checkRoundTrip(t, top)
		var switches, adapters int
		diameter := 0
		for i, n := range top.Nodes {
			if n.Type == node.Switch {
				switches++
				continue
			}
			adapters++
			if adapters > 50 {
				continue
			}
			for j, d := range hops(top, i) {
				if d < 0 {
					t.Fatalf("%s: no way from %s to %s", c.text, n.Name, top.Nodes[j].Name)
				}
				if top.Nodes[j].Type == node.CA {
					diameter = max(diameter, d)
				}
			}
		}
		if switches != c.switches || adapters != c.adapters || len(top.Links) != c.links || diameter != c.diameter {
			t.Errorf("%s: %d switches, %d adapters, %d links, diameter %d, want %d, %d, %d, %d",
				c.text, switches, adapters, len(top.Links), diameter, c.switches, c.adapters, c.links, c.diameter)
		}
	}
}

// In a k-ary n-tree every adapter has the same way up to all switches of the highest level.
func TestFatTreeReachesAllRoots(t *testing.T) {
	top, err := FatTree(3, 3)
	if err != nil {
		t.Fatal(err)
	}
	for i, n := range top.Nodes {
		if n.Type != node.CA {
			continue
		}
		d := hops(top, i)
		for root := range 9 {
			if !strings.HasPrefix(top.Nodes[root].Name, "core-") || d[root] != 3 {
				t.Errorf("%s to %s: %d hops, want 3", n.Name, top.Nodes[root].Name, d[root])
			}
		}
	}
}

func TestGenerateGUIDs(t *testing.T) {
	top, err := Generate("fat-tree:2,3")
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]uint64{"host-8": 0x02524a54_10000800, "leaf-1": 0x02524a54_21000100,
		"core-4": 0x02524a54_23000400} {
		if got := top.Nodes[top.Find(name)].GUID; got != want {
			t.Errorf("GUID of %s: %#x, want %#x", name, got, want)
		}
	}
	if got := top.Nodes[top.Find("host-8")].Ports[1].GUID; got != 0x02524a54_10000801 {
		t.Errorf("GUID of port 1 of host-8: %#x", got)
	}
}

func TestGenerateErrors(t *testing.T) {
	for text, want := range map[string]string{
		"torus:3":          `"torus:3" is none that can be made`,
		"star":             `"star" is none that can be made`,
		"pair:2":           `"pair:2" is none that can be made`,
		"star:1;2":         `"star:1;2" is none that can be made`,
		"star:x":           `"x" is no number`,
		"star:0":           `a star of 0 adapters`,
		"star:255":         `a star of 255 adapters`,
		"ring:2":           `at least 3 switches`,
		"line:9999,100":    `a line of 9999 switches`,
		"fat-tree:0,2":     `with 0 ports down`,
		"fat-tree:20,5":    `more than 20000 nodes`,
		"xgft:4,4;1":       `2 levels of children and 1 of parents`,
		"xgft:200,1;1,100": `switches of level 1 would have 300 ports`,
	} {
		if _, err := Generate(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

func TestFind(t *testing.T) {
	top := parse(t, "Ca 1 \"a\" # \"b\"\nCa 1 \"b\" # \"twice\"\nCa 1 \"c\" # \"twice\"\nCa 1 \"d\" # \"once\"\n")
	for name, want := range map[string]int{"a": 0, "b": 1, "twice": -1, "once": 3, "none": -1} {
		if got := top.Find(name); got != want {
			t.Errorf("%s: %d, want %d", name, got, want)
		}
	}
}

// Validate refuses topologies that a program may build and Parse cannot read back.
func TestValidate(t *testing.T) {
	for name, spoil := range map[string]func(*Topology){
		"two cables":        func(t *Topology) { t.Links = append(t.Links, t.Links[len(t.Links)-1]) },
		"does not exist":    func(t *Topology) { t.Links[0].B.Port = 9 },
		"not sorted":        func(t *Topology) { t.Links[0], t.Links[1] = t.Links[1], t.Links[0] },
		"several widths":    func(t *Topology) { t.Links[0].Width = 3 },
		"are called":        func(t *Topology) { t.Nodes[0].Name = t.Nodes[1].Name },
		"the same GUID":     func(t *Topology) { t.Nodes[0].GUID = t.Nodes[1].GUID },
		"ports of":          func(t *Topology) { t.Nodes[2].Ports[1] = t.Nodes[3].Ports[1] },
		"no GUID":           func(t *Topology) { t.Nodes[0].SystemGUID = 0 },
		"cannot be":         func(t *Topology) { t.Nodes[0].Ports[1].GUID = 5 },
		"a quote or an @":   func(t *Topology) { t.Nodes[0].Name = `"` },
		"the description":   func(t *Topology) { t.Nodes[0].Description = "a\nb" },
		"more than 24 bits": func(t *Topology) { t.Nodes[0].VendorID = 1 << 24 },
		"has 0 ports":       func(t *Topology) { t.Nodes[0].Ports = t.Nodes[0].Ports[:1] },
		"another GUID":      func(t *Topology) { t.Nodes[0].Name = "S-0000000000000001" },
		"reserved":          func(t *Topology) { t.Nodes[0].Type = 9 },
		"one line":          func(t *Topology) { t.Commands = []Command{{Text: "a\nb"}} },
	} {
		top := Pair()
		spoil(top)
		if err := top.Validate(); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Free ports come behind the ports with cables, at switches only, and only as many as a switch can have.
func TestAddPorts(t *testing.T) {
	f, err := FatTree(2, 2)
	if err != nil {
		t.Fatal(err)
	}
	before := len(f.Links)
	if err := f.AddPorts(3); err != nil {
		t.Fatal(err)
	}
	if err := f.Validate(); err != nil {
		t.Error(err)
	}
	for _, n := range f.Nodes {
		want := 1
		if n.Type == node.Switch {
			want = 2 + 3
			if strings.HasPrefix(n.Name, "leaf") {
				want += 2
			}
		}
		if n.NumPorts() != want {
			t.Errorf("%s has %d ports, want %d", n.Name, n.NumPorts(), want)
		}
	}
	if len(f.Links) != before {
		t.Errorf("%d links, want %d", len(f.Links), before)
	}
	if err := f.AddPorts(MaxPorts); err == nil {
		t.Error("a switch has more ports than there are numbers")
	}
}
