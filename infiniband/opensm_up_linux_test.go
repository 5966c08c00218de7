// SPDX-License-Identifier: Apache-2.0

package infiniband_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/ramjet-rdma/ramjet/infiniband"
	"github.com/ramjet-rdma/ramjet/internal/testkit/softfabric"
)

// topologies are the fabrics that are brought up: generated ones, and some that ibnetdiscover has written.
func topologies(t *testing.T) map[string]func(*infiniband.FabricOptions) (*infiniband.Fabric, error) {
	all := make(map[string]func(*infiniband.FabricOptions) (*infiniband.Fabric, error))
	for _, shape := range []string{"pair", "fat-tree:4,2"} {
		all[shape] = func(o *infiniband.FabricOptions) (*infiniband.Fabric, error) {
			return infiniband.GenerateFabric(shape, o)
		}
	}
	files, err := filepath.Glob("../internal/engine/topology/testdata/*.ibnetdiscover")
	if err != nil || len(files) == 0 {
		t.Fatal("no topologies", err)
	}
	for _, file := range files {
		all[filepath.Base(file)] = func(o *infiniband.FabricOptions) (*infiniband.Fabric, error) {
			text, err := os.ReadFile(file)
			if err != nil {
				return nil, err
			}
			return infiniband.NewFabric(file, string(text), o)
		}
	}
	return all
}

// adapterNames returns the names of a fabric's adapters.
func adapterNames(f *infiniband.Fabric) (names []string) {
	for _, n := range f.View().Nodes {
		if n.Adapter() {
			names = append(names, n.Name)
		}
	}
	return names
}

// checkLIDs has all switches, and all ports of adapters with a cable, have LIDs of their own.
func checkLIDs(t *testing.T, f *infiniband.Fabric) {
	t.Helper()
	has := make(map[uint16]string)
	take := func(lid uint16, name string) {
		if o, taken := has[lid]; lid == 0 || lid >= 0xc000 || taken {
			t.Errorf("%s has LID %d, and so has %q", name, lid, o)
		}
		has[lid] = name
	}
	for _, n := range f.View().Nodes {
		if !n.Adapter() {
			take(n.LID, n.Name)
			continue
		}
		for _, p := range n.Ports {
			if p.Active() {
				take(p.LID, n.Name)
			}
		}
	}
}

// OpenSM brings fabrics up, and data take the routes that it has chosen.
func TestOpenSMBringsUp(t *testing.T) {
	for name, start := range topologies(t) {
		t.Run(name, func(t *testing.T) {
			f, err := start(&infiniband.FabricOptions{NoManager: true})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(f.Close)
			x := newTools(t, f, "opensm", "ibnetdiscover")
			x.openSM("")
			softfabric.AwaitActive(t, f)
			checkLIDs(t, f)
			x.checkDiscovery(f)
			all := adapterNames(f)
			connectStream(t, f, all[0], all[len(all)-1]).along()
			connectStream(t, f, all[len(all)-1], all[0]).along()
		})
	}
}

// The tools find no fault in a fabric that the built-in manager has brought up.
func TestManagerBringsUp(t *testing.T) {
	starts := topologies(t)
	starts["fat-tree:128"] = func(o *infiniband.FabricOptions) (*infiniband.Fabric, error) {
		return infiniband.GenerateFabric("fat-tree:8,3", o)
	}
	for name, start := range starts {
		t.Run(name, func(t *testing.T) {
			f, err := start(nil)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(f.Close)
			x := newTools(t, f, "ibnetdiscover", "sminfo")
			softfabric.AwaitActive(t, f)
			checkLIDs(t, f)
			x.checkDiscovery(f)
			all := adapterNames(f)
			connectStream(t, f, all[0], all[len(all)-1]).along()
		})
	}
}
