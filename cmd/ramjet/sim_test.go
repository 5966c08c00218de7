// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"github.com/ramjet-rdma/ramjet/cmd/ramjet/internal/cli"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

const simIncast = `topology: {kind: star, hosts: 5}
host: {congestion: dcqcn}
payload: true
trace: 20us
traffic:
- {kind: incast, senders: 4, size: 200KB}
- {kind: poisson, sizes: fbhadoop, load: 0.2, until: 200us}
`

// runSim runs `ramjet sim` with a scenario in a file.
func runSim(t *testing.T, ctx context.Context, text string, args ...string) (string, error) {
	t.Helper()
	name := filepath.Join(t.TempDir(), "s.yaml")
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	root := newRootCmd(&out)
	root.SetErr(&bytes.Buffer{})
	root.SetArgs(append([]string{"sim", name}, args...))
	err := root.ExecuteContext(ctx)
	return out.String(), err
}

// A scenario runs, in all forms of output, and the same seed leads to the same.
func TestSim(t *testing.T) {
	folder := t.TempDir()
	out, err := runSim(t, t.Context(), simIncast, "--csv", folder, "-o", filepath.Join(folder, "s.svg"))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"size up to", "fairness", "switch 0", "all links:", "as they were sent"} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is not in\n%s", want, out)
		}
	}
	for name, want := range map[string]string{"flows.csv": "src,dst,op,bytes", "links.csv": "from,to,packets",
		"trace.csv": "time_s,", "s.svg": "slowdown"} {
		if got, err := os.ReadFile(filepath.Join(folder, name)); err != nil || !strings.Contains(string(got), want) {
			t.Errorf("%s: %v, want %q", name, err, want)
		}
	}
	again, err := runSim(t, t.Context(), simIncast)
	if err != nil || again != out {
		t.Errorf("%v: the same scenario led to\n%s\nand\n%s", err, out, again)
	}
	var r struct{ Flows, Ended int }
	text, err := runSim(t, t.Context(), simIncast, "--json", "--seed", "2")
	if err != nil || json.Unmarshal([]byte(text), &r) != nil || r.Flows < 5 || r.Ended != r.Flows {
		t.Errorf("%v: %+v", err, r)
	}
}

// Flows without an end count in goodput and fairness, and the first line says that they still run.
func TestSimRunning(t *testing.T) {
	const text = "duration: 2ms\ntopology: {kind: star, hosts: 4}\ntraffic:\n" +
		"- {kind: flows, flows: [{src: 0, dst: 3, size: 1GB}, {src: 1, dst: 3, size: 1GB}, {src: 2, dst: 3, size: 1GB, start: 1s}]}\n"
	folder := t.TempDir()
	out, err := runSim(t, t.Context(), text, "--csv", folder)
	first := regexp.MustCompile(`^2.00 ms: 0 of 3 flows ended, 2 still running, 1 not begun; goodput 9\d.\d Gb/s, fairness 1.000\n`)
	if err != nil || !first.MatchString(out) {
		t.Errorf("%v, want %v:\n%s", err, first, out)
	}
	flows, err := os.ReadFile(filepath.Join(folder, "flows.csv"))
	if running := regexp.MustCompile(`WRITE,1000000000,1\d{7},0,.*,running\n`); err != nil || len(running.FindAll(flows, -1)) != 2 {
		t.Errorf("%v, want two of %v:\n%s", err, running, flows)
	}
}

// The output has the loss of datagrams, and the number of trimmed packets.
func TestSimDatagrams(t *testing.T) {
	const text = "topology: {kind: star, hosts: 5}\nswitch: {pfc: false, trim: 10KB}\ntraffic: [{kind: incast, senders: 4, size: 100KB, op: ud}, {kind: incast, senders: 4}]"
	folder := t.TempDir()
	out, err := runSim(t, t.Context(), text, "--csv", folder)
	if err != nil || !strings.Contains(out, "4 flows of datagrams: ") || !strings.Contains(out, "packets trimmed") {
		t.Errorf("%v\n%s", err, out)
	}
	if flows, err := os.ReadFile(filepath.Join(folder, "flows.csv")); err != nil ||
		!strings.Contains(string(flows), ",UD SEND,100000,") {
		t.Errorf("%v\n%s", err, flows)
	}
}

// Ctrl-C prints the results so far.
func TestSimInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	plot := filepath.Join(t.TempDir(), "s.svg")
	out, err := runSim(t, ctx,
		"trace: 10ns\ntopology: {kind: star}\ntraffic: [{kind: permutation, size: 1GB, start: 1s}]", "-o", plot)
	if !errors.Is(err, context.Canceled) || !strings.Contains(out, "0 of 8 flows ended") {
		t.Errorf("%v\n%s", err, out)
	}
	if _, err := os.Stat(plot); err == nil {
		t.Error("nothing was drawn, and there is a file for it")
	}
}

// An error in a scenario is a usage error, with its place.
func TestSimErrors(t *testing.T) {
	for text, want := range map[string]string{
		"topology:\n  kindd: star\n":                       `s.yaml:2: unknown key "kindd"`,
		"traffic: [{kind: poisson}]":                       "traffic 1, poisson: it has no end",
		"topology: {kind: hpcc, file: none}":               "none",
		"topology: {kind: star, hosts: 2, rate: 2000Tb/s}": "bits per second",
	} {
		if _, err := runSim(t, t.Context(), text); err == nil || !cli.IsUsage(err) ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
	var out bytes.Buffer
	root := newRootCmd(&out)
	root.SetArgs([]string{"sim"})
	if err := root.Execute(); err == nil || !strings.Contains(err.Error(), "ramjet sim --print") {
		t.Errorf("without a scenario: %v", err)
	}
	root.SetArgs([]string{"sim", "--print"})
	if err := root.Execute(); err != nil || !strings.Contains(out.String(), "topology:") {
		t.Errorf("%v: %s", err, &out)
	}
}

// The scenarios of the documentation can be simulated.
func TestSimScenariosOfDocs(t *testing.T) {
	files, err := filepath.Glob("../../docs/sim/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("%d scenarios: %v", len(files), err)
	}
	for _, name := range files {
		ctx, cancel := context.WithCancel(t.Context())
		cancel() // after the first events
		var out bytes.Buffer
		root := newRootCmd(&out)
		root.SetErr(&bytes.Buffer{})
		root.SetArgs([]string{"sim", name})
		if err := root.ExecuteContext(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// The packets of chosen nodes are recorded, and a node that is not there is an error before anything is written.
func TestSimPackets(t *testing.T) {
	folder := t.TempDir()
	pcap, text := filepath.Join(folder, "s.pcapng"), filepath.Join(folder, "s.txt")
	if _, err := runSim(t, t.Context(), simIncast, "--at", "host 1", "--at", "switch 0 - host 0", "--pcap", pcap,
		"--packets", text); err != nil {
		t.Fatal(err)
	}
	lines, err := os.ReadFile(text)
	for _, want := range []string{"host 1 - switch 0: sent", "switch 0 - host 0: arrived", "RC RDMA Write", "CE"} {
		if err != nil || !strings.Contains(string(lines), want) {
			t.Errorf("%v: %q is not in %s", err, want, text)
		}
	}
	var out bytes.Buffer
	root := newRootCmd(&out)
	root.SetArgs([]string{"ladder", pcap})
	if err := root.ExecuteContext(t.Context()); err != nil || !strings.Contains(out.String(), "10.0.0.2") {
		t.Errorf("ladder: %v\n%s", err, &out)
	}
	none := filepath.Join(folder, "none.pcapng")
	if _, err := runSim(t, t.Context(), simIncast, "--at", "host 9", "--pcap", none); err == nil ||
		!strings.Contains(err.Error(), `--at: there is no "host 9"`) {
		t.Errorf("%v", err)
	}
	if _, err := os.Stat(none); err == nil {
		t.Error("a file was written for a node that is not there")
	}
	if _, err := runSim(t, t.Context(), simIncast, "--at", "switch 1", "--pcap", none); err == nil ||
		!strings.Contains(err.Error(), "of 5 hosts and 1 switch, each from 0") {
		t.Errorf("%v", err)
	}
	if _, err := runSim(t, t.Context(), simIncast, "--at", "host 1"); err == nil || !cli.IsUsage(err) ||
		!strings.Contains(err.Error(), "give --pcap or --packets") {
		t.Errorf("--at alone: %v", err)
	}
}
