// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"github.com/ramjet-rdma/ramjet/cmd/ramjet/internal/cli"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// Where a host is wanted, HOST:PORT is understood; misspelt words are guessed.
func TestGuesses(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]string{
		"perf send bw 127.0.0.1:99 -p 98":           "has port 99, and --port is 98",
		"pingpong rc 127.0.0.1:99 -p 98":            "has port 99, and --port is 98",
		"ping -c -a 127.0.0.1:99 -p 98":             "has port 99, and --port is 98",
		"pipe 127.0.0.1":                            "HOST:PORT",
		"perf send bw --loopbak":                    "unknown flag: --loopbak: did you mean --loopback?",
		"stat --jsn":                                "did you mean --json?",
		"ping -s --zzzzzz":                          "`ramjet ping --help` shows what it takes",
		"ping -s -d 127.0.0.1":                      "did you mean roce:127.0.0.1?",
		"perf send bw --loopback -d rcoe:127.0.0.1": "did you mean roce:127.0.0.1?",
	} {
		ramjetCmd(t, strings.Fields(args)...).wantError(t, cli.ExitUsage, want)
	}
}

// A file in place of a node is shown.
func TestFabricShowFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "small.net")
	text := "Switch 8 \"leaf\"\n[1] \"host-1\"[1]\n[2] \"host-2\"[1]\n\nHca 1 \"host-1\"\n[1] \"leaf\"[1]\n\nHca 1 \"host-2\"\n[1] \"leaf\"[2]\n"
	if err := os.WriteFile(file, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
	named, flag := ramjetCmd(t, "fabric", "show", file), ramjetCmd(t, "fabric", "show", "--topology", file)
	if named.status != 0 || named.stdout != flag.stdout || !strings.Contains(named.stdout, "leaf") {
		t.Errorf("%+v\n%+v", named, flag)
	}
	ramjetCmd(t, "fabric", "show", filepath.Join(dir, "none.net")).wantError(t, cli.ExitUsage, "none.net")
}

// -o names a file, by whose name its form is chosen, and --svg the same.
func TestOutputFlag(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, args := range []string{"fabric show --star 4 -o", "fabric show --star 4 --svg",
		"ladder ../../internal/app/ladder/testdata/loss.pcapng -o",
		"ladder ../../internal/app/ladder/testdata/loss.pcapng --svg"} {
		file := filepath.Join(dir, "a.svg")
		ramjetCmd(t, append(strings.Fields(args), file)...).wantSuccess(t)
		if text, err := os.ReadFile(file); err != nil || !strings.Contains(string(text), "<svg") {
			t.Errorf("%s: %v: %.100s", args, err, text)
		}
		os.Remove(file)
	}
	for args, want := range map[string]string{
		"fabric show --star 4 -o a.txt":                 "ends in .svg",
		"fabric show --star 4 -o a.svg --svg b.svg":     "output svg",
		"bench registration -o a.txt":                   "ends in .svg or .png",
		"bench registration -o a.svg --svg b.svg":       "give one file",
		"ping -s --json":                                "--json is the summary of a client",
		"perf send bw --loopback --output /none/x.json": "give a file that can be written",
		"ladder x.pcapng -o a.svg --svg b.svg":          "output svg",
	} {
		ramjetCmd(t, strings.Fields(args)...).wantError(t, cli.ExitUsage, want)
	}
}

// The results of ping and pingpong are JSON, with the same names for the same values.
func TestPingJSON(t *testing.T) {
	t.Parallel()
	type measured struct {
		Size      int   `json:"size_bytes"`
		Elapsed   int64 `json:"elapsed_ns"`
		Pings     int   `json:"pings"`
		RoundTrip int64 `json:"round_trip_ns"`
		Trips     struct {
			P50 int64 `json:"p50_ns"`
		} `json:"round_trip"`
		Devices []string `json:"devices"`
	}
	read := func(r result) (m measured) {
		r.wantSuccess(t)
		if err := json.Unmarshal([]byte(r.stdout), &m); err != nil || m.Elapsed <= 0 || m.RoundTrip+m.Trips.P50 <= 0 ||
			len(m.Devices) != 1 {
			t.Errorf("%v: %s", err, r.stdout)
		}
		return m
	}
	here, port := testDevice(t), freePort(t)
	server := startReady(t, "waiting", "ping", "-s", "-d", here, "-p", port)
	if m := read(ramjetCmd(t, "ping", "-c", "-a", host(here)+":"+port, "-d", testDevice(t), "-C", "5", "-V",
		"--json")); m.Size != 64 || m.Pings != 5 {
		t.Errorf("%+v", m)
	}
	server.wait().wantSuccess(t)
	args := []string{"pingpong", "rc", "-n", "10", "-s", "64", "-c", "--json", "-p", freePort(t)}
	peer := startNow(t, append(args, "-d", testDevice(t))...)
	args = append(args, "-d", testDevice(t), "127.0.0.1")
	client := ramjetCmd(t, args...)
	for end := time.Now().Add(patience); client.status != 0 && strings.Contains(client.stderr, "start it first") &&
		time.Now().Before(end); {
		time.Sleep(20 * time.Millisecond) // the server does not listen yet
		client = ramjetCmd(t, args...)
	}
	for _, r := range []result{client, peer.wait()} {
		if m := read(r); m.Size != 64 {
			t.Errorf("%+v", m)
		}
	}
}
