// SPDX-License-Identifier: Apache-2.0

package infiniband_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/ramjet-rdma/ramjet/infiniband"
	"github.com/ramjet-rdma/ramjet/internal/engine/topology"
)

// checkDiscovery has ibnetdiscover see the fabric: all nodes with a cable, and all cables.
func (x *tools) checkDiscovery(f *infiniband.Fabric) {
	x.t.Helper()
	found, err := topology.Parse("ibnetdiscover", []byte(x.run("ibnetdiscover")))
	if err != nil {
		x.t.Fatal(err)
	}
	compare(x.t, "ibnetdiscover", discovered(found), present(f, x.home))
}

// discovered lists nodes and cables by GUIDs and ports.
func discovered(top *topology.Topology) (all []string) {
	for _, n := range top.Nodes {
		all = append(all, fmt.Sprintf("%v %016x %q, %d ports", n.Type, n.GUID, n.Description, n.NumPorts()))
	}
	for _, l := range top.Links {
		all = append(all, cable(top.Nodes[l.A.Node].GUID, l.A.Port, top.Nodes[l.B.Node].GUID, l.B.Port))
	}
	return all
}

func cable(a uint64, p int, b uint64, q int) string {
	if a > b || a == b && p > q {
		a, p, b, q = b, q, a, p
	}
	return fmt.Sprintf("%016x[%d] - %016x[%d]", a, p, b, q)
}

// present lists the nodes and links of the fabric that can be reached from an adapter. An empty name stands for
// any adapter, in a fabric that is in one piece but for nodes without a link.
func present(f *infiniband.Fabric, from string) (all []string) {
	v := f.View()
	near := reached(v, from)
	for _, c := range v.Cables {
		if near[c.A.Node] != nil && near[c.B.Node] != nil {
			all = append(all, cable(near[c.A.Node].GUID, c.A.Port, near[c.B.Node].GUID, c.B.Port))
		}
	}
	for _, n := range near {
		all = append(all, fmt.Sprintf("%v %016x %q, %d ports", n.Type, n.GUID, n.Text, len(n.Ports)))
	}
	return all
}

// reached returns the nodes that can be reached from one, by name.
func reached(v *infiniband.FabricView, from string) map[string]*infiniband.NodeView {
	on := make(map[string]*infiniband.NodeView)
	for i := range v.Nodes {
		if n := &v.Nodes[i]; !n.Off {
			on[n.Name] = n
		}
	}
	near := make(map[string]*infiniband.NodeView)
	if from != "" {
		near[from] = on[from]
	}
	for grown := true; grown; {
		grown = false
		for _, c := range v.Cables {
			a, b := on[c.A.Node], on[c.B.Node]
			if a == nil || b == nil || from != "" && near[a.Name] == nil && near[b.Name] == nil {
				continue
			}
			grown = grown || near[a.Name] == nil || near[b.Name] == nil
			near[a.Name], near[b.Name] = a, b
		}
	}
	return near
}

// compare compares two lists in any order.
func compare(t testing.TB, what string, got, want []string) {
	t.Helper()
	slices.Sort(got)
	slices.Sort(want)
	for _, s := range got {
		if _, ok := slices.BinarySearch(want, s); !ok {
			t.Errorf("%s: %s, which is not there", what, s)
		}
	}
	for _, s := range want {
		if _, ok := slices.BinarySearch(got, s); !ok {
			t.Errorf("%s: without %s", what, s)
		}
	}
	if len(got) != len(want) {
		t.Errorf("%s: %d entries, want %d", what, len(got), len(want))
	}
}
