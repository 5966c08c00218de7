// SPDX-License-Identifier: Apache-2.0

package infiniband_test

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/ramjet-rdma/ramjet/infiniband"
	"github.com/ramjet-rdma/ramjet/internal/testkit/softfabric"
)

// The diagnostic tools show a fabric as it is, under each manager.
func TestDiagnostics(t *testing.T) {
	programs := []string{"ibhosts", "ibswitches", "iblinkinfo", "ibstat", "smpquery", "perfquery", "saquery", "sminfo",
		"ibroute"}
	for name, opensm := range map[string]bool{"opensm": true, "built-in": false} {
		t.Run(name, func(t *testing.T) {
			f := softfabric.Generate(t, "fat-tree:4,2", &infiniband.FabricOptions{NoManager: opensm})
			x := newTools(t, f, programs...)
			if opensm {
				newTools(t, f, "opensm").openSM("host-2")
			}
			softfabric.AwaitActive(t, f)
			d := &diagnosis{x, t, f}
			d.nodes()
			d.links()
			d.attributes()
			d.counters()
			d.errors()
			d.records()
			d.manager()
		})
	}
}

type diagnosis struct {
	*tools
	t *testing.T
	f *infiniband.Fabric
}

func number(n uint16) string { return strconv.Itoa(int(n)) }

// field returns the value behind a name and dots in a tool's output.
func (d *diagnosis) field(out, name string) string {
	d.t.Helper()
	m := regexp.MustCompile(`(?m)^\s*` + regexp.QuoteMeta(name) + `:?\.+(.*)$`).FindStringSubmatch(out)
	if m == nil {
		d.t.Errorf("no %s in\n%s", name, out)
		return ""
	}
	return strings.TrimSpace(m[1])
}

func (d *diagnosis) has(out, name, want string) {
	d.t.Helper()
	if got := d.field(out, name); got != want {
		d.t.Errorf("%s is %q, want %q", name, got, want)
	}
}

// nodes looks at ibhosts and ibswitches.
func (d *diagnosis) nodes() {
	row := regexp.MustCompile(`(?m)^(Ca|Switch)\s*: 0x([0-9a-f]+) ports (\d+) "(.*?)"`)
	var got, want []string
	for _, m := range row.FindAllStringSubmatch(d.run("ibhosts")+d.run("ibswitches"), -1) {
		got = append(got, strings.Join(m[1:], " "))
	}
	for _, n := range reached(d.f.View(), d.home) {
		kind := "Switch"
		if n.Adapter() {
			kind = "Ca"
		}
		want = append(want, fmt.Sprintf("%s %016x %d %s", kind, n.GUID, len(n.Ports), n.Text))
	}
	compare(d.t, "ibhosts, ibswitches", got, want)
}

// links looks at iblinkinfo, which shows each link from both ends.
func (d *diagnosis) links() {
	row := regexp.MustCompile(`(?m)^0x([0-9a-f]+) ".*?"\s+(\d+)\s+(\d+)\[.*?\] ==\(\s*(\S+)\s+(\S+) Gbps\s+Active/\s+LinkUp\)==>\s+0x([0-9a-f]+)\s+(\d+)\s+(\d+)\[`)
	var got, want []string
	for _, m := range row.FindAllStringSubmatch(d.run("iblinkinfo", "--line"), -1) {
		got = append(got, strings.Join(m[1:], " "))
	}
	v := d.f.View()
	near := reached(v, d.home)
	for _, c := range v.Cables {
		if near[c.A.Node] == nil || near[c.B.Node] == nil {
			continue
		}
		for _, e := range [][2]infiniband.End{{c.A, c.B}, {c.B, c.A}} {
			here, there := findNode(d.t, d.f, e[0].Node), findNode(d.t, d.f, e[1].Node)
			want = append(want, fmt.Sprintf("%s %d 4X 25.78125 %s %d", portID(here, e[0].Port), e[0].Port,
				portID(there, e[1].Port), e[1].Port))
		}
	}
	compare(d.t, "iblinkinfo", got, want)
}

// portID is how iblinkinfo names the owner of a port: its GUID and LID.
func portID(n *infiniband.NodeView, port int) string {
	if n.Adapter() {
		return fmt.Sprintf("%016x %d", n.Ports[port-1].GUID, n.Ports[port-1].LID)
	}
	return fmt.Sprintf("%016x %d", n.GUID, n.LID)
}

// attributes looks at ibstat and smpquery.
func (d *diagnosis) attributes() {
	host, leaf := findNode(d.t, d.f, "host-1"), findNode(d.t, d.f, "leaf-1")
	lid := number(host.Ports[0].LID)
	out := d.run("ibstat")
	for _, want := range []string{"State: Active", "Physical state: LinkUp", "Base lid: " + lid + "\n",
		fmt.Sprintf("Port GUID: 0x%016x", host.Ports[0].GUID)} {
		if !strings.Contains(out, want) {
			d.t.Errorf("ibstat: no %q in\n%s", want, out)
		}
	}
	out = d.run("smpquery", "nodeinfo", lid)
	d.has(out, "NodeType", "Channel Adapter")
	d.has(out, "Guid", fmt.Sprintf("0x%016x", host.GUID))
	d.has(out, "PortGuid", fmt.Sprintf("0x%016x", host.Ports[0].GUID))
	out = d.run("smpquery", "portinfo", lid, "1")
	d.has(out, "Lid", lid)
	d.has(out, "LinkState", "Active")
	d.has(out, "LinkSpeedExtActive", "25.78125 Gbps")
	out = d.run("smpquery", "switchinfo", number(leaf.LID))
	top, _ := strconv.Atoi(d.field(out, "LinearFdbTop"))
	for _, n := range d.f.View().Nodes {
		if lid := max(n.LID, n.Ports[0].LID); int(lid) > top {
			d.t.Errorf("LinearFdbTop of %s is %d, below %d of %s", leaf.Name, top, lid, n.Name)
		}
	}
	if out = d.run("smpquery", "pkeys", lid); !strings.Contains(out, "0: 0xffff ") {
		d.t.Errorf("smpquery pkeys: %s", out)
	}
	if out = d.run("smpquery", "sl2vl", number(leaf.LID), "5"); strings.Count(out, "ports: in") != len(leaf.Ports)+1 {
		d.t.Errorf("smpquery sl2vl: %s", out)
	}
	if out = d.run("smpquery", "vlarb", lid); !strings.Contains(out, "High priority VL Arbitration Table") {
		d.t.Errorf("smpquery vlarb: %s", out)
	}
}

// errors looks at ibqueryerrors. Bringing a fabric up has a few: ports wait for credits, OpenSM takes links
// down when it starts. For counters that the tool did not get it would print huge numbers.
func (d *diagnosis) errors() {
	if _, err := program("ibqueryerrors"); err != nil {
		d.t.Log(err)
		return
	}
	out, _ := d.try("ibqueryerrors") // its status is the number of ports with errors
	for _, m := range regexp.MustCompile(`\[(\w+) == (\d+)`).FindAllStringSubmatch(out, -1) {
		if n, err := strconv.ParseUint(m[2], 10, 64); err != nil || n > 1e12 {
			d.t.Errorf("ibqueryerrors has %s of %s:\n%s", m[1], m[2], out)
		}
	}
	if !strings.Contains(out, "24 nodes checked") {
		d.t.Errorf("ibqueryerrors:\n%s", out)
	}
}

// counters looks at perfquery, and has it clear the counters that it shows.
func (d *diagnosis) counters() {
	s := connectStream(d.t, d.f, "host-5", "host-9")
	s.along()
	lid := number(findNode(d.t, d.f, "host-9").Ports[0].LID)
	count := func(args ...string) int {
		d.t.Helper()
		n, err := strconv.Atoi(d.field(d.run("perfquery", args...), "PortRcvData"))
		if err != nil {
			d.t.Error(err)
		}
		return 4 * n
	}
	if n := count(lid, "1"); n < transferLen {
		d.t.Errorf("perfquery: %d bytes received, want %d at least", n, transferLen)
	}
	if n := count("-x", lid, "1"); n < transferLen {
		d.t.Errorf("perfquery -x: %d bytes received, want %d at least", n, transferLen)
	}
	d.run("perfquery", "-R", lid, "1")
	if n := count(lid, "1"); n > transferLen/2 {
		d.t.Errorf("perfquery after -R: %d bytes received", n)
	}
	s.transfer()
	if n := count(lid, "1"); n < transferLen {
		d.t.Errorf("perfquery: %d bytes received since, want %d at least", n, transferLen)
	}
}

// records looks at saquery's records of one node, of one path, of one link.
func (d *diagnosis) records() {
	from, to := findNode(d.t, d.f, "host-1"), findNode(d.t, d.f, "host-12")
	slid, dlid := number(from.Ports[0].LID), number(to.Ports[0].LID)
	out := d.run("saquery", "NR", slid)
	d.has(out, "lid", slid)
	d.has(out, "node_guid", fmt.Sprintf("0x%016x", from.GUID))
	d.has(out, "NodeDescription", from.Text)
	out = d.run("saquery", "-p", "--slid", slid, "--dlid", dlid)
	d.has(out, "slid", slid)
	d.has(out, "dlid", dlid)
	if n := strings.Count(out, "PathRecord dump"); n != 1 {
		d.t.Errorf("saquery -p: %d paths, want 1", n)
	}
	out = d.run("saquery", "LR", slid+"/1")
	d.has(out, "ToLID", number(findNode(d.t, d.f, "leaf-1").LID))
	out = d.run("saquery", "PIR", slid+"/1")
	d.has(out, "Lid", slid)
	// Of a table that is too long for the library there are whole records, of this fabric.
	for _, m := range regexp.MustCompile(`node_guid\.+0x([0-9a-f]+)`).FindAllStringSubmatch(d.run("saquery"), -1) {
		known := false
		for _, n := range d.f.View().Nodes {
			known = known || m[1] == fmt.Sprintf("%016x", n.GUID)
		}
		if !known {
			d.t.Errorf("saquery: node %s is none of the fabric's", m[1])
		}
	}
}

// manager looks at sminfo.
func (d *diagnosis) manager() {
	dev, err := d.f.Open("host-3", nil)
	if err != nil {
		d.t.Fatal(err)
	}
	defer dev.Close()
	p, err := dev.Port(1)
	if err != nil {
		d.t.Fatal(err)
	}
	if out := d.run("sminfo"); !strings.Contains(out, fmt.Sprintf("sm lid %d ", p.SMLID)) ||
		!strings.Contains(out, "state 3 SMINFO_MASTER") {
		d.t.Errorf("sminfo: %s, want LID %d", out, p.SMLID)
	}
}
