// SPDX-License-Identifier: Apache-2.0

package infiniband_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/ramjet-rdma/ramjet/infiniband"
	"github.com/ramjet-rdma/ramjet/internal/core/fabric"
	"github.com/ramjet-rdma/ramjet/internal/engine/topology"
)

// checkDiscovery has ibnetdiscover see the fabric: all nodes with a cable, and all cables.
func (x *tools) checkDiscovery(f *infiniband.Fabric) {
	x.t.Helper()
	found, err := topology.Parse("ibnetdiscover", []byte(x.run("ibnetdiscover")))
	if err != nil {
		x.t.Fatal(err)
	}
	compare(x.t, "ibnetdiscover", discovered(found), present(f))
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

// present lists what of the fabric can be reached: nodes with a link, and links.
func present(f *infiniband.Fabric) (all []string) {
	v := f.Running().View()
	nodes := make(map[string]*fabric.NodeView)
	linked := make(map[string]bool)
	for i := range v.Nodes {
		nodes[v.Nodes[i].Name] = &v.Nodes[i]
	}
	for _, c := range v.Cables {
		a, b := nodes[c.A.Node], nodes[c.B.Node]
		if a.Off || b.Off {
			continue
		}
		linked[a.Name], linked[b.Name] = true, true
		all = append(all, cable(a.GUID, c.A.Port, b.GUID, c.B.Port))
	}
	for name := range linked {
		n := nodes[name]
		all = append(all, fmt.Sprintf("%v %016x %q, %d ports", n.Type, n.GUID, n.Text, len(n.Ports)))
	}
	return all
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
