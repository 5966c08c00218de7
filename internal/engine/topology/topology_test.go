// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/ramjet-rdma/ramjet/internal/engine/node"
)

func parse(t *testing.T, text string) *Topology {
	t.Helper()
	top, err := Parse("test.net", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	checkRoundTrip(t, top)
	return top
}

// checkRoundTrip checks that a topology is valid, and the same after writing and reading.
func checkRoundTrip(t *testing.T, top *Topology) {
	t.Helper()
	if err := top.Validate(); err != nil {
		t.Fatalf("%v\n%s", err, top)
	}
	again, err := Parse("written", []byte(top.String()))
	if err != nil {
		t.Fatalf("what was written does not parse: %v\n%s", err, top)
	}
	if a, b := withoutPlaces(top), withoutPlaces(again); !reflect.DeepEqual(a, b) {
		t.Fatalf("written and parsed:\n%v\nwant:\n%v", b, a)
	}
}

func withoutPlaces(top *Topology) *Topology {
	c := *top
	c.Commands = nil
	for _, cmd := range top.Commands {
		c.Commands = append(c.Commands, Command{Text: cmd.Text})
	}
	if len(c.Links) == 0 {
		c.Links = nil
	}
	return &c
}

func TestParseIbsimStyle(t *testing.T) {
	top := parse(t, `# two switches
Switch	8 "Switch1"
[1]	"Hca1"[1]
[2]	"Hca2"[2]
[3]	"Switch2"[3]
[4]	"Switch2"[4]	w=2 s=4

Switch 8 "Switch2"
# a comment inside
[3]	"Switch1"[3]
[4]	"Switch1"[4]

Hca	2 "Hca1"
[1]	"Switch1"[1]

Hca	2 "Hca2"
[2]	"Switch1"[2]
`)
	if len(top.Nodes) != 4 || len(top.Links) != 4 {
		t.Fatalf("%d nodes, %d links", len(top.Nodes), len(top.Links))
	}
	// GUIDs as ibsim counts them.
	for name, want := range map[string]uint64{"Switch1": 0x200000, "Switch2": 0x200001, "Hca1": 0x100000,
		"Hca2": 0x100003} {
		if got := top.Nodes[top.Find(name)].GUID; got != want {
			t.Errorf("GUID of %s: %#x, want %#x", name, got, want)
		}
	}
	if got := top.Nodes[3].Ports[2].GUID; got != 0x100005 {
		t.Errorf("GUID of port 2 of Hca2: %#x", got)
	}
	want := []Link{
		{End{0, 1}, End{2, 1}, 0, 0}, {End{0, 2}, End{3, 2}, 0, 0}, {End{0, 3}, End{1, 3}, 0, 0},
		{End{0, 4}, End{1, 4}, node.Width4x, node.QDR},
	}
	if !reflect.DeepEqual(top.Links, want) {
		t.Errorf("links %v, want %v", top.Links, want)
	}
}

// The files are ibnetdiscover's output, on fabrics that ibsim simulated and OpenSM had configured.
func TestParseIbnetdiscover(t *testing.T) {
	files, err := filepath.Glob("testdata/*.ibnetdiscover")
	if err != nil || len(files) == 0 {
		t.Fatalf("no files: %v", err)
	}
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		top, err := Parse(f, text)
		if err != nil {
			t.Error(err)
			continue
		}
		checkRoundTrip(t, top)
		for _, l := range top.Links {
			if l.Width != node.Width4x || l.Speed == 0 {
				t.Errorf("%s: link %v: no width or speed", f, l)
			}
			if n := &top.Nodes[l.B.Node]; n.Type == node.CA && n.Ports[l.B.Port].LID == 0 {
				t.Errorf("%s: %s has no LID", f, n.Name)
			}
		}
	}
}

func TestParseRecords(t *testing.T) {
	top := parse(t, "\ufeffsrc/query_smp.c:195; umad (DR path slid 0; dlid 0; 0,1 Attr 0x11:0) bad status 110"+`
ibwarn: [1] sim_connect: attached
Non-Chassis Nodes

Chassis 1 (guid 0x5442ba00003000)

  vendid=0x8f1
  devid=0x5a06
  sysimgguid=0x5442ba00003000		# Chassis 1 (x)
  switchguid=0x5442ba00003080(5442ba00003081)	# Spine 1 Chip 2
  Switch  24 "S-005442ba00003080"         # "ISR "9024" Voltaire" base port 0 lid 6 lmc 0
  [22][ext 3]    "H-0008f10403961354"[1](8f10403961355)         # "MT23108 lid 7 1xSDR" lid 4 4xSDR slot 3
  [10]    "S-0008f10400410015"[1][ext 5]         # "SW-6IB4 Voltaire" lid 3 4x??? s=1 w=2 v=4

switchguid=0x5442ba00003000(8f10400410015)
Switch  8 "S-0008f10400410015"          # a switch that says little, base port 0 lid 3 lmc 0
[1](1)  "S-005442ba00003080"[10]

Ca      2 "H-0008f10403961354"          # "MT23108"
[1](8f10403961355)     "S-005442ba00003080"[22]         # lid 4 lmc 2 "ISR9024 Voltaire" lid 6 4xSDR

rtguid=0x77
Rt 1 "R-x"
`)
	sw, other, ca, rt := &top.Nodes[0], &top.Nodes[1], &top.Nodes[2], &top.Nodes[3]
	if sw.VendorID != 0x8f1 || sw.DeviceID != 0x5a06 || sw.SystemGUID != 0x5442ba00003000 ||
		sw.GUID != 0x5442ba00003080 ||
		sw.Description != `ISR "9024" Voltaire` || sw.Ports[0] != (Port{0x5442ba00003081, 6, 0}) {
		t.Errorf("%+v", sw)
	}
	if other.GUID != 0x8f10400410015 || other.VendorID != 0 || other.Ports[0].LID != 3 ||
		other.Description != "a switch that says little," {
		t.Errorf("%+v", other)
	}
	if ca.GUID != 0x8f10403961354 || ca.Ports[1] != (Port{0x8f10403961355, 4, 2}) ||
		ca.Ports[2].GUID != 0x8f10403961356 {
		t.Errorf("%+v", ca)
	}
	if rt.Type != node.Router || rt.GUID != 0x77 || rt.Ports[1].GUID != 0x78 {
		t.Errorf("%+v", rt)
	}
	if l := top.Links[0]; l.Width != node.Width4x || l.Speed != 0 {
		t.Errorf("link with an unknown speed: %+v", l)
	}
	if l := top.Links[1]; l.Width != node.Width4x || l.Speed != node.SDR {
		t.Errorf("link: %+v", l)
	}
}

func TestParseModules(t *testing.T) {
	files := map[string]string{
		"rack1.net": "module \"rack1\"\nSwitch 4 \"sw\"\n[1] \"host\"\n@[2] \"up\"\nCa 1 \"host\"\n",
		"rack2.net": "module \"rack2\"\nSwitch 4 \"sw\"\n[1] \"host\"\n[4] \"rack1@up\"\nCa 1 \"host\"\nmodule \"\"\n",
	}
	load := func(name string) ([]byte, error) {
		if text, ok := files[name]; ok {
			return []byte(text), nil
		}
		return nil, os.ErrNotExist
	}
	top, err := ParseFiles("all.net", []byte("include \"rack1.net\"\ninclude \"rack2.net\"\nSwitch 2 \"top\"\n[1] \"rack1#sw\"[4]\ndo unlink \"top\"[1]\n"), load)
	if err != nil {
		t.Fatal(err)
	}
	checkRoundTrip(t, top)
	want := []Link{
		{A: End{0, 1}, B: End{1, 1}}, {A: End{0, 2}, B: End{2, 4}}, {A: End{0, 4}, B: End{4, 1}},
		{A: End{2, 1}, B: End{3, 1}},
	}
	if !reflect.DeepEqual(top.Links, want) {
		t.Errorf("links %v, want %v", top.Links, want)
	}
	if top.Nodes[2].Name != "rack2#sw" || !reflect.DeepEqual(top.Commands,
		[]Command{{"all.net", 5, `unlink "top"[1]`}}) {
		t.Errorf("%+v, %+v", top.Nodes[2], top.Commands)
	}

	for text, want := range map[string]string{
		`include "none.net"`: `all.net:1: include "none.net": file does not exist`,
		`include none.net`:   `all.net:1: the file's name is missing`,
		`include "self.net"`: `self.net:1: include "self.net": more than 9 files`,
	} {
		files["self.net"] = `include "self.net"`
		if _, err := ParseFiles("all.net", []byte(text), load); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

func TestParseDefaults(t *testing.T) {
	top := parse(t, "width=3\nspeed=7\nextspeed=2\nSwitch 2 \"a\"\n[1] \"b\"\nwidth=1\nspeed=1\nextspeed=0\nSwitch 2 \"b\"\n[2] \"c\"\nCa 1 \"c\"\n[1] \"b\"[2] w=3 s=7 e=3\n")
	want := []Link{{End{0, 1}, End{1, 1}, node.Width4x, node.EDR}, {End{1, 2}, End{2, 1}, node.Width1x, node.SDR}}
	if !reflect.DeepEqual(top.Links, want) {
		t.Errorf("links %v, want %v", top.Links, want)
	}
}

// Files of ibsim may begin with the GUIDs from which the nodes of each type count.
func TestParseBases(t *testing.T) {
	top := parse(t, "switchguids=0x50\nhcaguids=0x60\nrtguids=0x70\nSwitch 1 \"s\"\nSwitch 1 \"t\"\nHca 1 \"a\"\nHca 1 \"b\"\nhcaguids+0x8\nRt 1 \"r\"\nHca 1 \"c\"\n")
	for name, want := range map[string]uint64{"s": 0x50, "t": 0x51, "a": 0x60, "b": 0x62, "r": 0x70, "c": 0x68} {
		if got := top.Nodes[top.Find(name)].GUID; got != want {
			t.Errorf("GUID of %s: %#x, want %#x", name, got, want)
		}
	}
}

func TestParseErrors(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{``, `t:1: there is no node`},
		{`Swich 8 "a"`, `t:1: "Swich" is not understood`},
		{`Switch 8 a`, `t:1: the node's name is missing`},
		{`Switch 8 "a`, `t:1: the node's name is missing`},
		{`Switch`, `t:1: the node's name is missing`},
		{`Switch 8 "a" lmc 2 # "a"`, `t:1: "lmc 2" is not understood: behind the node's name`},
		{"switchguid=9\nSwitch 8 \"a\"\nswitchguid=9\nSwitch 8 \"b\"\n[1] \"a\"[1]",
			`t:4: node "b" has the GUID 0x9, which "a" (t:2) has already: give it one of its own in a line before, such as switchguid=0x109`},
		{`Switch x "a"`, `t:1: "x" is not how many ports a node has`},
		{`Switch 255 "a"`, `t:1: "255" is not how many ports a node has`},
		{`Switch 8 ""`, `t:1: the name is empty`},
		{`Switch 8 "a@b"`, `t:1: the name "a@b" has a quote or an @`},
		{`Switch 8 "` + strings.Repeat("x", 65) + `"`, `t:1: the name "` + strings.Repeat("x", 65) + `" has 65 bytes`},
		{"Switch 8 \"a\"\n\nCa 1 \"a\"", `t:3: node "a" is at t:1 already`},
		{"Switch 8 \"a\"\n[9] \"b\"", `t:2: there is no port 9 at "a": it has ports 1 to 8`},
		{"Switch 8 \"a\"\n[0] \"b\"", `t:2: there is no port 0 at "a"`},
		{"Switch 8 \"a\"\n[x] \"b\"", `t:2: the port's number: "x" is no number`},
		{"Switch 8 \"a\"\n[1 \"b\"", `t:2: the port's number is missing`},
		{"Switch 8 \"a\"\n[1] b", `t:2: the other end of port 1 is missing`},
		{"Switch 8 \"a\"\n[1] \"b\"[", `t:2: the bracket behind "b" is not closed`},
		{"Switch 8 \"a\"\n[1] \"b\"[0]", `t:2: "0" is not a port of "b"`},
		{"Switch 8 \"a\"\n[1] \"b\"[1]", `t:2: there is no node "b", to which port 1 of "a" is connected`},
		{"Switch 8 \"a\"\n[1] \"b\"[1] x=3", `t:2: x= is not understood`},
		{"Switch 8 \"a\"\n[1] \"b\"[1] fast", `t:2: "fast" is not understood`},
		{"Switch 8 \"a\"\n[1] \"b\"[1] w=32", `t:2: 32 is too large`},
		{"Switch 8 \"a\"\n[1](5)", `t:2: the other end of port 1 is missing`},
		{"Ca 8 \"a\"\n[1](5)\n[1](6)", `t:3: port 1 of "a" is at t:2 already`},
		{"Switch 8 \"a\"\n[1] \"a\"[1]", `t:2: port 1 of "a" has its own other end`},
		{"Switch 8 \"a\"\n[1] \"b\"[3]\nCa 2 \"b\"", `t:2: there is no port 3 at "b": it has ports 1 to 2`},
		{"Switch 8 \"a\"\n[1] \"b\"[1]\n[1] \"b\"[2]\nCa 2 \"b\"", `t:3: port 1 of "a" is at t:2 already`},
		{"Switch 8 \"a\"\n[1] \"b\"[1]\n[2] \"b\"[1]\nCa 2 \"b\"", `t:3: port 1 of "b" has a cable already, by t:2`},
		{"Switch 8 \"a\"\n[1] \"b\"[1]\nCa 2 \"b\"\n[1] \"a\"[2]",
			`t:2: port 1 of "a" is connected to port 1 of "b", but that one to port 2 of "a" (t:4)`},
		{"Switch 8 \"a\"\n[1] \"b\"[1] w=1\nCa 2 \"b\"\n[1] \"a\"[1] w=2",
			`t:4: port 1 of "b" and port 1 of "a" (t:2) have no width and speed in common`},
		{"Switch 8 \"a\"\n[1] \"b\"[1]\nCa 2 \"b\"\n[1](5)",
			`t:2: port 1 of "a" is connected to port 1 of "b", whose line (t:4) has no cable`},
		{"Switch 8 \"a\"\n[1] \"b\"[1](5)\nCa 2 \"b\"\n[1](6) \"a\"[1]",
			`t:2: port 1 of "b" has the GUID 0x5 here and 0x6 in the record of its node`},
		{"caguid=7\nCa 1 \"a\"\ncaguid=7\nCa 1 \"b\"", `t:4: node "b" has the GUID 0x7, which "a" (t:2) has already`},
		{"Ca 1 \"a\"\n[1](5)\nCa 1 \"b\"\n[1](5)",
			`t:3: port 1 of "b" has the GUID 0x5, which port 1 of "a" has already`},
		{"caguid=0\nCa 1 \"a\"", `t:2: the GUID of "a" is 0`},
		{"Switch 8 \"a\"\nswitchguid=0x10\n[1] \"b\"[1]\nCa 2 \"b\"",
			`t:3: switchguid= at t:2 is about the next node, so this port belongs to none`},
		{"Ca 1 \"a\"\ncaguid=7\nvendid=8", `t:2: caguid= is about a channel adapter that does not follow`},
		{"Ca 1 \"a\"\ndevid=8\n", `t:2: devid= is about a node that does not follow`},
		{"Switch 1 \"a\"\nvendid=1\n\nvendid=2\nSwitch 1 \"b\"",
			`t:4: vendid= is about the next node, as vendid= at t:2 is`},
		{"caguid=1\nhcaguids=2\nCa 1 \"b\"", `t:2: hcaguids= is about the next channel adapter, as caguid= at t:1 is`},
		{"sysimgguid=1\nsysimgguid=1\nCa 1 \"b\"", `t:2: sysimgguid= is about the next node`},
		{"switchguid=1\nCa 1 \"b\"\nSwitch 1 \"a\"",
			`t:2: switchguid= at t:1 is a switch's, but this is a channel adapter`},
		{"caguids=1\nSwitch 1 \"a\"\n", `t:1: caguids= is about a channel adapter that does not follow`},
		{"caguid=wrong", `t:1: "wrong" is no number`},
		{"vendid=0x1000000", `t:1: 0x1000000 is too large`},
		{"switchguid=0x1(zz)", `t:1: (zz) is no GUID`},
		{"color=red", `t:1: "color=" is not understood`},
		{"Switch 1 \"a\"\n\x7fELF\x00=", `t:2: this is no text`},
		{"[1] \"a\"", `t:1: this port belongs to no node`},
		{"module rack", `t:1: the module's name is missing`},
		{"include \"x\"", `t:1: include "x": there are no files here`},
		{"do", `t:1: the command is missing`},
		{"Switch 8 \"a\"\n[1] \"@up\"", `t:2: there is no alias "@up"`},
		{"Switch 8 \"a\"\n@[1] \"up\"\n@[2] \"up\"", `t:3: the alias "@up" is at t:2 already`},
	} {
		_, err := Parse("t", []byte(c.text))
		if err == nil || !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%q:\n %v, want\n %s", c.text, err, c.want)
		}
	}
	if _, err := Parse("t", []byte("vendid=1\nSwich 1 \"a\"\nvendid=1\nCa 1 \"b\"")); err == nil ||
		strings.Contains(err.Error(), "\n") {
		t.Errorf("one mistake: %v", err)
	}
	if _, err := Parse("t", []byte("Switch 900 \"a\"\n[1] \"b\"[1]\n[2] \"b\"[2]\nCa 2 \"b\"")); err == nil ||
		strings.Contains(err.Error(), "\n") {
		t.Errorf("one mistake, and ports behind it: %v", err)
	}
	if _, err := Parse("t", []byte("x\ny\nz")); err == nil || strings.Count(err.Error(), "\n") != 2 {
		t.Errorf("three mistakes: %v", err)
	}
}

// GUIDs of ports without a line avoid the GUIDs of lines.
func TestSparePortGUIDs(t *testing.T) {
	top := parse(t, "caguid=0x10\nCa 2 \"a\"\ncaguid=0x11\nCa 2 \"b\"\n[1](0x11)\n[2](0x12)\n")
	if a := top.Nodes[0].Ports; a[1].GUID != 0x400000 || a[2].GUID != 0x400001 {
		t.Errorf("%+v", a)
	}
}

func TestBuild(t *testing.T) {
	top := parse(t, "sysimgguid=9\nvendid=2\ndevid=3\nCa 2 \"a\" # \"the adapter\"\n[2](77) \"b\"[1] # lid 5 lmc 1 \"x\" lid 0 12xNDR\nSwitch 3 \"b\" # base port 0 lid 7 lmc 0\n")
	nodes := top.Build(node.DefaultSpec)
	a, b := nodes[0], nodes[1]
	if a.Type != node.CA || a.Description != "the adapter" || a.SystemGUID != 9 || a.VendorID != 2 || a.DeviceID != 3 ||
		b.Description != "b" || len(b.Ports) != 4 {
		t.Errorf("%+v, %+v", a, b)
	}
	p := &a.Ports[2]
	if p.GUID != 0x77 || p.GUIDs[0] != 0x77 || p.Address.LID != 5 || p.Address.LMC != 1 || b.Ports[0].Address.LID != 7 {
		t.Errorf("%+v", p)
	}
	if w, s := node.Negotiate(p, &b.Ports[1]); w != node.Width12x || s != node.NDR {
		t.Errorf("negotiated %v %v", w, s)
	}
	if w, s := node.Negotiate(&a.Ports[1], &b.Ports[2]); w != node.Width4x || s != node.EDR {
		t.Errorf("other ports: %v %v", w, s)
	}
	slow := parse(t, "Ca 1 \"a\"\n[1] \"b\" # lid 0 lmc 0 \"b\" lid 0 1xDDR\nCa 1 \"b\"\n").Build(node.DefaultSpec)
	if w, s := node.Negotiate(&slow[0].Ports[1], &slow[1].Ports[1]); w != node.Width1x || s != node.DDR {
		t.Errorf("slow link: %v %v", w, s)
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte{0})
	f.Add([]byte(Pair().String()))
	f.Add([]byte("module \"m\"\nSwitch 3 \"a\" # x lid 3 lmc 0\n@[1] \"up\"\n[2] \"b\" s=4 w=2 e=1\nCa 1 \"b\"\nRt 2 \"r\"\n[1](5)\n[2] \"m@up\"\ndo x\n"))
	f.Add([]byte("vendid=1\ndevid=2\nsysimgguid=3 # x\nhcaguids=0x9\nswitchguid=0x4(5)\nSwitch 2 \"S-0008f10400410015\" # \"x\" base port 0 lid 3 lmc 1\nwidth=3\nspeed=0\nextspeed=15\ninclude \"x\"\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		top, err := ParseFiles("fuzz", text, func(string) ([]byte, error) { return []byte("Ca 1 \"included\"\n"), nil })
		if err == nil {
			checkRoundTrip(t, top)
		}
	})
}

// ibnetdiscover saw the generated fabric: ibsim has understood the text that Append wrote.
func TestIbsimBuildsWhatWasWritten(t *testing.T) {
	for file, made := range map[string]string{"testdata/fat-tree.ibnetdiscover": "fat-tree:3,3",
		"testdata/pair.ibnetdiscover": "pair"} {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		seen, err := Parse(file, text)
		if err != nil {
			t.Fatal(err)
		}
		want, err := Generate(made)
		if err != nil {
			t.Fatal(err)
		}
		if a, b := cables(seen), cables(want); !reflect.DeepEqual(a, b) {
			t.Errorf("%s: %v, want %v", made, a, b)
		}
		for i := range want.Nodes {
			w := &want.Nodes[i]
			got := seen.Find(w.Name)
			if got < 0 {
				t.Errorf("%s: no %s", made, w.Name)
			} else if n := &seen.Nodes[got]; n.GUID != w.GUID || n.Type != w.Type || n.NumPorts() != w.NumPorts() ||
				n.Ports[1].GUID != w.Ports[1].GUID {
				t.Errorf("%s: %+v, want %+v", made, n, w)
			}
		}
	}
}

// cables returns the links by the descriptions of their nodes.
func cables(top *Topology) map[[4]any]bool {
	all := make(map[[4]any]bool)
	for _, l := range top.Links {
		for _, e := range [][2]End{{l.A, l.B}, {l.B, l.A}} {
			all[[4]any{top.Nodes[e[0].Node].describe(), e[0].Port, top.Nodes[e[1].Node].describe(), e[1].Port}] = true
		}
	}
	return all
}

// A node without a GUID gets another one on each host, and always the same there. A node with a GUID keeps
// it.
func TestGUIDsOfHosts(t *testing.T) {
	const text = "Switch 3 \"s\"\n[1] \"a\"[1]\n[2] \"b\"[1]\n\nHca 2 \"a\"\n\ncaguid=0x77\nHca 1 \"b\"\n"
	seen := make(map[uint64]int)
	for host := range 3 {
		f, err := ParseFor(host, "t", []byte(text), nil)
		if err != nil {
			t.Fatal(err)
		}
		if f.Nodes[2].GUID != 0x77 || f.Nodes[2].SystemGUID != 0x77 || f.Nodes[2].Ports[1].GUID != 0x78 {
			t.Errorf("host %d: a GUID that was said is %#x now, of a system %#x, port %#x", host, f.Nodes[2].GUID,
				f.Nodes[2].SystemGUID, f.Nodes[2].Ports[1].GUID)
		}
		for _, guid := range []uint64{f.Nodes[0].GUID, f.Nodes[1].GUID, f.Nodes[1].Ports[1].GUID,
			f.Nodes[1].Ports[2].GUID} {
			if other, taken := seen[guid]; taken {
				t.Errorf("hosts %d and %d have the GUID %#x", other, host, guid)
			}
			seen[guid] = host
		}
	}
}
