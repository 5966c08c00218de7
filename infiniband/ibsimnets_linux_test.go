// SPDX-License-Identifier: Apache-2.0

package infiniband_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/ramjet-rdma/ramjet/infiniband"
	"github.com/ramjet-rdma/ramjet/internal/testkit/softfabric"
	"github.com/ramjet-rdma/ramjet/internal/testkit/testrun"
)

// netExamples are the topologies that ibsim ships, where Debian puts them.
const netExamples = "/usr/share/doc/ibsim-utils/net-examples/net*"

// The fabrics that ibsim ships come up under either manager. Diagnostic tools show them as they are: whole, with
// a cable pulled, and with a switch off.
func TestIBSimExamples(t *testing.T) {
	testrun.SkipUnlessLong(t, "runs diagnostic tools a thousand times")
	files, err := filepath.Glob(netExamples)
	if err != nil || len(files) == 0 {
		t.Skipf("%s: nothing there: install ibsim-utils, and let dpkg keep its documentation", netExamples)
	}
	for _, file := range files {
		for name, opensm := range map[string]bool{"opensm": true, "built-in": false} {
			t.Run(filepath.Base(file)+"/"+name, func(t *testing.T) {
				text, err := os.ReadFile(file)
				if err != nil {
					t.Fatal(err)
				}
				f, err := infiniband.NewFabric(file, string(text), &infiniband.FabricOptions{NoManager: opensm})
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(f.Close)
				x := newTools(t, f, "ibnetdiscover", "ibhosts", "ibswitches", "iblinkinfo", "ibstat", "smpquery",
					"perfquery", "saquery", "ibtracert", "ibroute", "ibqueryerrors", "ibidsverify")
				if opensm {
					newTools(t, f, "opensm").openSM(adapterNames(f)[0], givesUpSoon).allowed = cutOff
				}
				x.home = adapterNames(f)[0]
				x.examines(t, f)
			})
		}
	}
}

// examines has the tools look at a fabric, before and after a cable and a switch go.
func (x *tools) examines(t *testing.T, f *infiniband.Fabric) {
	check := func(what string) {
		t.Helper()
		softfabric.AwaitActive(t, f)
		x.checkDiscovery(f)
		checkLIDs(t, f)
		d := &diagnosis{x, t, f}
		d.nodes()
		d.links()
		d.everywhere()
		for name, n := range reached(f.View(), x.home) {
			if n.Adapter() && n.Ports[0].Active() && name != x.home { // addresses belong to first ports
				connectStream(t, f, x.home, name).transfer()
			}
		}
		if t.Failed() {
			t.Fatal("with", what)
		}
	}
	check("all in place")
	v := f.View()
	var gate string // the switch behind the port where the tools look from
	door := infiniband.End{Node: x.home, Port: 1}
	for _, c := range v.Cables {
		if c.A == door {
			gate = c.B.Node
		} else if c.B == door {
			gate = c.A.Node
		}
	}
	for _, c := range slices.Backward(v.Cables) {
		if c.A == door || c.B == door {
			continue
		}
		if err := f.Pull(c.A); err != nil {
			t.Fatal(err)
		}
		check(fmt.Sprintf("the cable of %v pulled", c.A))
		if err := f.Plug(c.A, c.B); err != nil {
			t.Fatal(err)
		}
		check(fmt.Sprintf("the cable of %v back", c.A))
		break
	}
	for _, n := range slices.Backward(v.Nodes) {
		if n.Adapter() || n.Name == gate {
			continue
		}
		if err := f.Power(n.Name, false); err != nil {
			t.Fatal(err)
		}
		check(n.Name + " off")
		if err := f.Power(n.Name, true); err != nil {
			t.Fatal(err)
		}
		check(n.Name + " on again")
		break
	}
}

// expected are the counters that rise where cables are pulled, and where something waits for credits.
const expected = "LinkDownedCounter,LinkErrorRecoveryCounter,PortXmitDiscards,PortRcvSwitchRelayErrors,PortXmitWait"

// everywhere asks each node and each pair that there is a way between, in the manner of ibdiagnet: identities,
// records, routes, and no errors counted.
func (d *diagnosis) everywhere() {
	d.t.Helper()
	var ports []infiniband.End
	for _, n := range reached(d.f.View(), d.home) {
		lid := n.LID
		for _, p := range n.Ports {
			if n.Adapter() && p.Active() {
				ports = append(ports, infiniband.End{Node: n.Name, Port: p.Number})
				lid = p.LID
			}
		}
		out := d.run("smpquery", "nodeinfo", number(lid))
		d.has(out, "Guid", fmt.Sprintf("0x%016x", n.GUID))
		d.has(out, "NumPorts", fmt.Sprint(len(n.Ports)))
		out = d.run("saquery", "NR", number(lid))
		d.has(out, "node_guid", fmt.Sprintf("0x%016x", n.GUID))
	}
	for _, from := range ports {
		for _, to := range ports {
			if from.Node != to.Node {
				d.checkRouteOf(from, to)
			}
		}
	}
	if out, err := d.try("ibqueryerrors", "--suppress", expected); err != nil || strings.Contains(out, "Errors for") {
		d.t.Errorf("ibqueryerrors: %v\n%s", err, out)
	}
	if out := d.run("ibidsverify"); strings.Contains(out, "ERR") {
		d.t.Errorf("ibidsverify: %s", out)
	}
	if out := d.run("ibstat"); !strings.Contains(out, "State: Active") {
		d.t.Errorf("ibstat: %s", out)
	}
}

// checkRouteOf has ibtracert find the route between two ports, and the administrator a path between them.
func (d *diagnosis) checkRouteOf(from, to infiniband.End) {
	d.t.Helper()
	hops, arrives, err := d.f.Route(from, to)
	if err != nil {
		d.t.Fatal(err)
	}
	lid := func(e infiniband.End) string { return number(findNode(d.t, d.f, e.Node).Ports[e.Port-1].LID) }
	if !arrives {
		d.t.Errorf("there is no route from %v to %v: %v", from, to, hops)
		return
	}
	out := d.run("ibtracert", lid(from), lid(to))
	got := tracedHop.FindAllStringSubmatch(out, -1)
	if len(got) != len(hops) {
		d.t.Errorf("ibtracert from %v to %v, want %v:\n%s", from, to, hops, out)
		return
	}
	for i, m := range got {
		if m[1] != fmt.Sprint(hops[i].Port) {
			d.t.Errorf("ibtracert from %v to %v, want %v:\n%s", from, to, hops, out)
		}
	}
	out = d.run("saquery", "-p", "--slid", lid(from), "--dlid", lid(to))
	d.has(out, "dlid", lid(to))
}
