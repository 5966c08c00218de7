// SPDX-License-Identifier: Apache-2.0

package infiniband_test

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"testing"

	"github.com/ramjet-rdma/ramjet/infiniband"
	"github.com/ramjet-rdma/ramjet/internal/testkit/softfabric"
)

var tracedHop = regexp.MustCompile(`(?m)^\[(\d+)\] -> `)

// checkRoute has ibtracert find a route, and ibroute the tables of the switches on it.
func (x *tools) checkRoute(f *infiniband.Fabric, from, to string, hops []infiniband.End) {
	x.t.Helper()
	lid := func(name string) string { return strconv.Itoa(int(findNode(x.t, f, name).Ports[0].LID)) }
	var got, want []int
	for _, m := range tracedHop.FindAllStringSubmatch(x.run("ibtracert", lid(from), lid(to)), -1) {
		n, _ := strconv.Atoi(m[1])
		got = append(got, n)
	}
	for _, e := range hops {
		want = append(want, e.Port)
	}
	if !slices.Equal(got, want) {
		x.t.Errorf("ibtracert from %s to %s: ports %v, want %v", from, to, got, want)
	}
	for _, e := range hops[1:] {
		s := findNode(x.t, f, e.Node)
		row := regexp.MustCompile(fmt.Sprintf(`(?m)^0x%04x %03d : `, findNode(x.t, f, to).Ports[0].LID, e.Port))
		if out := x.run("ibroute", strconv.Itoa(int(s.LID))); !row.MatchString(out) {
			x.t.Errorf("ibroute %d has no %q:\n%s", s.LID, row, out)
		}
	}
}

// rerouted waits until there is a route again that avoids a node or a port, and transfers along it.
func (s *flow) rerouted(what string, avoids func(infiniband.End) bool) []infiniband.End {
	s.t.Helper()
	waitFor(s.t, what, func() bool {
		hops, arrives, err := s.f.Route(infiniband.End{Node: s.from, Port: 1}, infiniband.End{Node: s.to, Port: 1})
		return err == nil && arrives && !slices.ContainsFunc(hops, avoids)
	})
	s.transfer() // lost packets have been sent again when this is over
	return s.along()
}

// A cable is pulled and a switch is switched off: data go on elsewhere, and the tools see it.
func TestOpenSMReroutes(t *testing.T) {
	f := softfabric.Generate(t, "fat-tree:4,2", &infiniband.FabricOptions{NoManager: true})
	x := newTools(t, f, "opensm", "ibnetdiscover", "ibtracert", "ibroute")
	// It may ask the switch that is off before it finds out.
	x.openSM("host-2", givesUpSoon).allowed = unanswered
	x.reroutes(f)
}

func TestManagerReroutes(t *testing.T) {
	f := softfabric.Generate(t, "fat-tree:4,2", nil)
	newTools(t, f, "ibnetdiscover", "ibtracert", "ibroute").reroutes(f)
}

func (x *tools) reroutes(f *infiniband.Fabric) {
	t := x.t
	softfabric.AwaitActive(t, f)
	s := connectStream(t, f, "host-1", "host-16")
	hops := s.along()
	x.checkRoute(f, s.from, s.to, hops)

	cut := hops[1]
	var other infiniband.End
	for _, c := range f.View().Cables {
		if c.A == cut {
			other = c.B
		} else if c.B == cut {
			other = c.A
		}
	}
	if err := f.Pull(cut); err != nil {
		t.Fatal(err)
	}
	hops = s.rerouted("a route without the cable", func(e infiniband.End) bool { return e == cut })
	softfabric.AwaitActive(t, f)
	x.checkRoute(f, s.from, s.to, hops)
	x.checkDiscovery(f)

	spine := hops[2].Node
	if err := f.Power(spine, false); err != nil {
		t.Fatal(err)
	}
	hops = s.rerouted("a route without "+spine, func(e infiniband.End) bool { return e.Node == spine })
	softfabric.AwaitActive(t, f)
	x.checkRoute(f, s.from, s.to, hops)
	x.checkDiscovery(f)

	if err := f.Power(spine, true); err != nil {
		t.Fatal(err)
	}
	if err := f.Plug(cut, other); err != nil {
		t.Fatal(err)
	}
	softfabric.AwaitActive(t, f)
	x.checkDiscovery(f)
	checkLIDs(x.t.(*testing.T), f)
	s.rerouted("a route with all in place", func(infiniband.End) bool { return false })
}

// OpenSM takes over from the built-in manager, which takes over again when OpenSM ends; connections go on.
func TestOpenSMTakesOver(t *testing.T) {
	t.Parallel()
	f := softfabric.Generate(t, "fat-tree:4,2",
		&infiniband.FabricOptions{Manager: infiniband.ManagerOptions{Priority: 3}})
	x := newTools(t, f, "opensm", "sminfo", "ibnetdiscover")
	softfabric.AwaitActive(t, f)
	s := connectStream(t, f, "host-1", "host-16")
	s.along()
	manager := func() uint16 { return s.devAManager() }
	builtIn := manager()

	o := x.openSM("host-2", "sm_priority 14")
	waitFor(t, "OpenSM takes over", func() bool { return manager() == findNode(t, f, "host-2").Ports[0].LID })
	softfabric.AwaitActive(t, f)
	s.rerouted("a route", func(infiniband.End) bool { return false })
	x.checkDiscovery(f)
	checkLIDs(t, f)
	connectStream(t, f, "host-3", "host-12").along()
	if out := x.run("sminfo"); !regexp.MustCompile(`priority 14 state 3 SMINFO_MASTER`).MatchString(out) {
		t.Errorf("sminfo: %s", out)
	}

	o.end()
	waitFor(t, "the built-in manager takes over again", func() bool { return manager() == builtIn })
	softfabric.AwaitActive(t, f)
	s.rerouted("a route", func(infiniband.End) bool { return false })
	checkLIDs(t, f)
	connectStream(t, f, "host-4", "host-13").along()
}

// devAManager returns the LID of the subnet manager that the first device has been told.
func (s *flow) devAManager() uint16 {
	s.t.Helper()
	p, err := s.devA.Port(1)
	if err != nil {
		s.t.Fatal(err)
	}
	return p.SMLID
}
