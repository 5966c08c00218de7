// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// read reads a scenario that has to be right.
func read(t *testing.T, text string) *File {
	t.Helper()
	f, err := Read(strings.NewReader(text), "s.yaml", t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func printed(t *testing.T, f *File) string {
	t.Helper()
	var out bytes.Buffer
	if err := f.Print(&out); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// A printed scenario reads back as the same, and an empty file is the default.
func TestPrint(t *testing.T) {
	for _, text := range []string{"", "seed: 7",
		"topology: {kind: star, hosts: 9}\ntraffic: [{kind: incast}, {kind: poisson, sizes: websearch, until: 3ms}, {kind: flows, flows: [{src: 1, dst: 2, size: 3MiB}]}]", "host: {congestion: 'dcqcn,rpg_ai_rate=20', window: 16MiB}\nswitch: {pfc: false, ecn: {rate: 0b/s, kmin: 5KB}}\ntraffic: []",
		"switch: {kind: infiniband, credits: 128KiB}\ntraffic: [{kind: incast, op: ud}]",
		"switch: {reroute: 2ms, watchdog: {detect: 1ms, action: forward}}\nfailures: [{from: switch 0, to: switch 4, at: 1ms}, {kind: switch, node: switch 5, for: 1s}, {kind: pause-storm, node: host 3}]"} {
		once := printed(t, read(t, text))
		if again := printed(t, read(t, once)); again != once {
			t.Errorf("%q was printed as\n%s\nand then as\n%s", text, once, again)
		}
	}
	out := printed(t, read(t, ""))
	for _, want := range []string{"seed: 1", "mtu: 1024", "buffer: 32Mi", "congestion: window", "kind: permutation",
		"delay: 1µs"} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is not in\n%s", want, out)
		}
	}
}

// An error has the file, the line and the expected value.
func TestErrors(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"seed: 1\nsede: 2\n", `s.yaml:2: unknown key "sede": expected one of seed, duration`},
		{"host:\n  mtu: 1500\n", `s.yaml:2: "1500": expected 256, 512, 1024, 2048, 4096`},
		{"host:\n  burst: 100\n", `s.yaml:2: 100: expected 1 to 64`},
		{"host:\n  burst: x\n", `s.yaml:2: "x": expected a whole number`},
		{"\nswitch:\n  pfc: maybe\n", `s.yaml:3: "maybe": expected true or false`},
		{"host: {congestion: bbr}", `s.yaml:1: no congestion control "bbr"`},
		{"host: {congestion: 'dcqcn,x=1'}", `has no parameter "x"`},
		{"duration: 5\n", `s.yaml:1: "5" is no time`},
		{"topology:\n  rate: 100\n", `s.yaml:2: "100" is no rate: expected one such as 100Gb/s`},
		{"message: -1\n", `s.yaml:1: "-1" is no size`},
		{"message: 0B\n", `s.yaml:1: 0B: expected 1 to 67108864`},
		{"traffic:\n- kind: incast\n  load: 0.3\n", `s.yaml:3: traffic incast has no "load": expected one of op, size`},
		{"traffic:\n- sizes: foo\n  kind: poisson",
			`s.yaml:2: no distribution "foo": expected websearch, fbhadoop, alistorage`},
		{"traffic: 3\n", `s.yaml:1: expected a list`},
		{"topology: 3\n", `s.yaml:1: expected keys: kind, file`},
		{"topology: {kind: ring}", `s.yaml:1: "ring": expected star, dumbbell`},
		{"seed: [1]\n", `s.yaml:1: expected a value`},
		{"seed: 1\nseed: 2\n", `s.yaml:2: key "seed" stands there twice`},
		{"switch:\n  watchdog:\n    action: alert\n", `s.yaml:3: "alert": expected drop, forward`},
		{"switch: {watchdog: {detect: 5}}\n", `s.yaml:1: "5" is no time`},
		{"switch:\n  kind: infiniband\n  pfc: true\n",
			`s.yaml:3: switch infiniband has no "pfc": expected one of credits, paths`},
		{"switch: {kind: infiniband, credits: 1KiB}\n", `s.yaml:1: 1KiB: expected 8576 to 131072`},
		{"switch: {credits: 64KiB}\n", `s.yaml:1: switch ethernet has no "credits"`},
		{"switch: {reroute: soon}\n", `s.yaml:1: "soon" is no time`},
		{"failures:\n- kind: power\n", `s.yaml:2: "power": expected link, switch, pause-storm`},
		{"failures:\n- {from: host 1, to: leaf 2}\n",
			`s.yaml:2: "leaf 2" is no node: expected one such as host 3 or switch 1`},
		{"failures:\n- kind: switch\n  from: host 1\n",
			`s.yaml:3: failure switch has no "from": expected one of node, at, for`},
		{"traffic:\n- kind: all-reduce\n  algorithm: star\n",
			`s.yaml:3: "star": expected ring, halving-doubling, tree`},
		{"traffic: [{kind: all-reduce, ranks: -1}]\n", `s.yaml:1: -1: expected 0 to 131072`},
		{"traffic: [{kind: incast, ranks: 4}]\n", `s.yaml:1: traffic incast has no "ranks"`},
		{"a: b: c\n", `s.yaml: mapping values`}, // the library has no number for the first line
		{"seed: 1\na: b: c\n", `s.yaml:2: mapping values`},
		{"seed: *x\n", `s.yaml: `},
	} {
		if _, err := Read(strings.NewReader(c.text), "s.yaml", ""); err == nil ||
			!strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: %v, want %q", c.text, err, c.want)
		}
	}
}

// A scenario's values are the simulation's, and impossible ones are errors.
func TestBuild(t *testing.T) {
	for _, c := range []struct {
		text, want string
		flows      int
	}{
		{"topology: {kind: star, hosts: 9}\ntraffic: [{kind: incast, repeat: 3}]", "", 24},
		{"topology: {kind: fat-tree}\ntraffic: [{kind: all-to-all}]", "", 240},
		{"topology: {kind: dumbbell, hosts: 3}", "", 6},
		{"topology: {kind: star}\ntraffic: [{kind: incast, senders: 2}, {kind: all-reduce}, {kind: all-reduce, algorithm: tree, ranks: 5}]", "", 2 + 8*14 + 8},
		{"topology: {kind: star}\ntraffic: [{kind: all-reduce, algorithm: halving-doubling}]", "", 8 * 6},
		{"topology: {kind: star}\ntraffic: [{kind: all-reduce, algorithm: halving-doubling, ranks: 6}]",
			"s.yaml:2: traffic 1, all-reduce: 6 ranks: halving-doubling needs a power of two", 0},
		{"topology: {kind: star}\ntraffic: [{kind: all-reduce, ranks: 9}]", "ranks is 9: there are 8 hosts", 0},
		{"topology: {kind: fat-tree, k: 32}\ntraffic: [{kind: all-reduce}]", "flows: 4194304 at most", 0},
		{"topology: {kind: fat-tree, k: 5}", "s.yaml:1: topology: k is 5: an even number is needed", 0},
		{"traffic: [{kind: poisson}]", "it has no end", 0},
		{"traffic: [{kind: poisson, size: 1B, load: 1, until: 1s}]", "flows: 4194304 at most", 0},
		{"topology: {kind: star}\ntraffic: [{kind: incast, senders: 8}]", "8 senders to host 0: there are 8 hosts", 0},
		{"topology: {kind: hpcc}", "hpcc needs a file", 0},
		{"seed: 2\ntopology: {kind: hpcc, file: none.txt}", "s.yaml:2: topology: open ", 0},
		{"traffic: [{kind: hpcc, file: x}]", "topology.kind hpcc", 0},
		{"traffic:\n- kind: flows\n  flows: [{src: 1, dst: 99}]",
			"s.yaml:2: traffic 1, flows: flow 1 is from host 1 to host 99: expected two of 32 hosts", 0},
		{"topology: {rate: 1b/s}", "s.yaml:1: the link between nodes 0 and 32 has 1 bits per second", 0},
		{"failures: [{from: switch 0, to: switch 4, at: 1ms, for: 1ms}, {kind: switch, node: switch 5}, {kind: pause-storm, node: host 31}]", "", 32},
		{"failures: [{from: host 0, to: switch 1}]",
			"s.yaml:1: failure 1: there is no link between host 0 and switch 1", 0},
		{"failures: [{kind: switch, node: switch 9}]", "s.yaml:1: failure 1: there is no switch 9", 0},
		{"failures: [{kind: switch, node: host 1}]", "host 1 is no switch", 0},
		{"seed: 2\nswitch:\n  buffer: 1KiB",
			"s.yaml:3: switch 0 has 12 ports, and its buffer of 1024 bytes does not even hold their headroom", 0},
		{"\n\nswitch: {ecn: {kmin: 1MB, kmax: 10KB}}", "s.yaml:3: switch.ecn: kmax has to be at least kmin", 0},
		{"payload: true\ntraffic: [{size: 2GB}]", "s.yaml: a flow of 2000000000 bytes with payload", 0},
		{"switch: {trim: 100KB}\ntraffic: [{kind: permutation, op: ud}]", "", 32},
		{"switch: {kind: infiniband}\nfailures: [{kind: pause-storm, node: host 1}]", "InfiniBand has no pauses", 0},
		{"traffic: [{kind: all-reduce, op: ud}]", "op is ud, whose data may be lost", 0},
	} {
		s, err := read(t, c.text).Build()
		if c.want != "" {
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%q: %v, want %q", c.text, err, c.want)
			}
			continue
		}
		if err != nil || len(s.Flows()) != c.flows {
			t.Errorf("%q: %v", c.text, err)
		}
	}
}

// Files that a scenario names are relative to it.
func TestHPCCFiles(t *testing.T) {
	folder := t.TempDir()
	for name, text := range map[string]string{"t.txt": "3 1 2\n2\n0 2 100Gbps 1us 0\n1 2 100Gbps 1us 0\n",
		"f.txt": "1\n0 1 3 100 5000 0\n"} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	f, err := Read(strings.NewReader(
		"topology: {kind: hpcc, file: t.txt}\ntraffic: [{kind: hpcc, file: f.txt, op: read}]"), "s.yaml", folder)
	if err != nil {
		t.Fatal(err)
	}
	s, err := f.Build()
	if err != nil {
		t.Fatal(err)
	}
	if more, err := s.Run(1e6); more || err != nil || s.Results().Ended != 1 {
		t.Errorf("%v, %v: %+v", more, err, s.Results())
	}
}

// FuzzRead reads any text; a scenario that it takes can be printed and read back.
func FuzzRead(f *testing.F) {
	f.Add("")
	f.Add("x")
	f.Add("topology: {kind: star, hosts: 9}\ntraffic: [{kind: incast}, {kind: flows, flows: [{src: 1, dst: 2, size: 3MiB}]}]")
	f.Add("host: {congestion: 'dcqcn,rpg_ai_rate=20', window: 16MiB}\nswitch: {alpha: 0.3, ecn: {rate: 0b/s, kmin: 5KB}}")
	f.Fuzz(func(t *testing.T, text string) {
		s, err := Read(strings.NewReader(text), "s", "")
		if err != nil {
			return
		}
		var once, again bytes.Buffer
		if err := s.Print(&once); err != nil {
			t.Fatal(err)
		}
		back, err := Read(bytes.NewReader(once.Bytes()), "s", "")
		if err != nil {
			t.Fatalf("%v, in what was printed:\n%s", err, &once)
		}
		if err := back.Print(&again); err != nil || again.String() != once.String() {
			t.Fatalf("%v:\n%s\nand\n%s", err, &once, &again)
		}
	})
}
