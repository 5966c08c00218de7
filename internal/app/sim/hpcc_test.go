// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"reflect"
	"strings"
	"testing"

	"github.com/ramjet-rdma/ramjet/verbs"
)

const hpccTopology = `6 2 5
0 5
1 0 100Gbps 0.001ms 0
2 0 100Gbps 1000ns 0
3 5 25Gbps 1us 0
4 5 25Gbps 0.001ms 0
0 5 400Gbps 0.002ms 0.000001
`

// HPCC's files: a switch may have any number, and flows run between nodes of the file.
func TestHPCC(t *testing.T) {
	top, nodes, err := ReadHPCCTopology(strings.NewReader(hpccTopology), "topology.txt")
	if err != nil {
		t.Fatal(err)
	}
	if top.Hosts != 4 || top.Switches != 2 || len(top.Links) != 5 {
		t.Fatalf("%+v", top)
	}
	if want := (Link{A: 4, B: 5, Rate: 400e9, Delay: 2 * Microsecond, Loss: 1e-6}); top.Links[4] != want {
		t.Errorf("%+v, want %+v", top.Links[4], want)
	}
	if want := (Link{A: 2, B: 5, Rate: 25e9, Delay: Microsecond}); top.Links[2] != want {
		t.Errorf("%+v, want %+v", top.Links[2], want)
	}
	flows, err := ReadHPCCFlows(strings.NewReader("2\n1 4 3 100 200000 2.0\n\n3 2 3 101 500 2.000001\n"), "flow.txt",
		nodes)
	if err != nil {
		t.Fatal(err)
	}
	if want := (Flow{Src: 0, Dst: 3, Size: 200000, Start: 2 * Second, Op: verbs.OpWrite}); !reflect.DeepEqual(flows[0],
		want) {
		t.Errorf("%+v, want %+v", flows[0], want)
	}
	runAll(t, config(t, "dcqcn"), top, flows)
}

// An error has the file, the line, and the expected value.
func TestHPCCErrors(t *testing.T) {
	_, nodes, err := ReadHPCCTopology(strings.NewReader(hpccTopology), "topology.txt")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ text, want string }{
		{"", "t:1: the file ends: expected the numbers of nodes"},
		{"6 2\n", "t:1: there are 2 words"},
		{"2 2 0\n0 1\n", "t:1: of 2 nodes 2 are switches"},
		{"6 2 5\n0 0\n", "t:2: switch 0 stands there twice"},
		{"6 2 5\n0 9\n", `t:2: "9" is no node: expected a number from 0 to 5`},
		{"6 2 5\n0 5\n1 0 100Gb 1us 0\n", `t:3: "100Gb" is no rate`},
		{"6 2 5\n0 5\n1 0 100Gbps 1 0\n", `t:3: "1" is no delay`},
		{"6 2 5\n0 5\n1 0 100Gbps 1us x\n", `t:3: "x" is no error rate`},
		{"6 2 5\n0 5\n1 0 100Gbps 1us 0\n", "t:4: the file ends: expected a link"},
	} {
		if _, _, err := ReadHPCCTopology(strings.NewReader(c.text), "t"); err == nil ||
			!strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: %v, want %q", c.text, err, c.want)
		}
	}
	for _, c := range []struct{ text, want string }{
		{"1\n1 0 3 100 5 2.0\n", "f:2: node 0 is a switch"},
		{"1\n1 1 3 100 5 2.0\n", "f:2: the flow goes from node 1 to itself"},
		{"1\n1 2 3 100 x 2.0\n", `f:2: "x" is no size`},
		{"1\n1 2 3 100 5 -1\n", `f:2: "-1" is no start`},
		{"2\n1 2 3 100 5 1\n", "f:3: the file ends: expected a flow"},
	} {
		if _, err := ReadHPCCFlows(strings.NewReader(c.text), "f", nodes); err == nil ||
			!strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: %v, want %q", c.text, err, c.want)
		}
	}
}

// FuzzHPCC reads any text as a topology, and as flows.
func FuzzHPCC(f *testing.F) {
	f.Add(hpccTopology, "1\n1 4 3 100 200000 2.0\n")
	f.Add("", "1")
	f.Fuzz(func(t *testing.T, topology, flows string) {
		top, nodes, err := ReadHPCCTopology(strings.NewReader(topology), "t")
		if err != nil {
			return
		}
		if err := top.Check(); err != nil {
			t.Fatal(err)
		}
		read, err := ReadHPCCFlows(strings.NewReader(flows), "f", nodes)
		for _, fl := range read {
			if err == nil && (int(fl.Src) >= top.Hosts || int(fl.Dst) >= top.Hosts || fl.Src < 0 || fl.Dst < 0) {
				t.Fatalf("%+v of %d hosts", fl, top.Hosts)
			}
		}
	})
}
