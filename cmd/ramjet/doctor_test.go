// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/ramjet-rdma/ramjet/cmd/ramjet/internal/cli"
	"github.com/ramjet-rdma/ramjet/internal/app/doctor"
)

// Doctor reports on this machine, as text and as JSON, and its exit status agrees.
func TestDoctor(t *testing.T) {
	t.Parallel()
	text := ramjetCmd(t, "doctor", "127.0.0.1")
	for _, want := range []string{"Ramjet's devices in software", "The way to 127.0.0.1", "it is this host",
		"in order of preference"} {
		if !strings.Contains(text.stdout, want) {
			t.Errorf("no %q in\n%s", want, text.stdout)
		}
	}
	r := ramjetCmd(t, "doctor", "--json", "127.0.0.1")
	var got struct {
		doctor.Facts
		Findings []doctor.Finding
	}
	if err := json.Unmarshal([]byte(r.stdout), &got); err != nil {
		t.Fatalf("%v: %s", err, r.stdout)
	}
	if want := doctor.Problems(got.Findings) > 0; (r.status == cli.ExitFailed) != want || (r.status == 0) == want {
		t.Errorf("exit status %d, findings %+v", r.status, got.Findings)
	}
	if got.System == nil || len(got.Soft) == 0 || got.Peer == nil ||
		got.Peer.Addr != netip.MustParseAddr("127.0.0.1") || len(got.Peer.Best) == 0 {
		t.Errorf("%s", r.stdout)
	}
	for _, s := range got.Soft {
		if !s.Works && s.Problem == "" && s.Needs == "" {
			t.Errorf("%s: nobody is told why it was not opened", s.Kind)
		}
	}
}

func TestDoctorUsage(t *testing.T) {
	t.Parallel()
	ramjetCmd(t, "doctor", "no.such.host.invalid").wantError(t, cli.ExitUsage,
		"give a name that resolves, or an address")
	ramjetCmd(t, "doctor", "a", "b").wantError(t, cli.ExitUsage,
		"is one argument too many: write `ramjet doctor [HOST | DEVICE]`")
}

// Each command that takes --device takes it from the environment where it is not given.
func TestDeviceFromEnvironment(t *testing.T) {
	t.Parallel()
	setEnv(t, "RAMJET_DEVICE", "rose:192.0.2.7")
	args := map[string]string{
		"cp": "cp a 127.0.0.1:", "ls": "ls 127.0.0.1:", "pipe": "pipe -l 7000", "serve": "serve .", "ping": "ping -s",
		"demo": "demo", "run": "run -- true", "perf table": "perf table", "bench notification": "bench notification",
		"bench registration": "bench registration",
		"pingpong rc":        "pingpong rc", "pingpong uc": "pingpong uc", "pingpong ud": "pingpong ud",
		"pingpong srq": "pingpong srq", "pingpong xsrq": "pingpong xsrq",
	}
	seen := 0
	eachCommand(newRootCmd(new(strings.Builder)), func(c *cobra.Command) {
		if c.Hidden || c.HasSubCommands() || c.Flags().Lookup("device") == nil {
			return
		}
		path := strings.TrimPrefix(c.CommandPath(), "ramjet ")
		if path == "fault" {
			return // it is one of another process
		}
		seen++
		line, ok := args[path]
		if !ok {
			line = path
		}
		r := ramjetCmd(t, strings.Fields(line)...)
		if path == "run" && strings.Contains(r.stderr, "cabi/build.sh") {
			return // it reports the missing requirement first
		}
		r.wantError(t, cli.ExitUsage, `RAMJET_DEVICE: "rose:192.0.2.7": no device kind "rose"`)
	})
	if seen < 15 {
		t.Errorf("only %d commands have --device", seen)
	}
}

// A flag comes before the environment, a kind is taken out of a name, and an error says where the name
// is from.
func TestDeviceFromEnvironmentValues(t *testing.T) {
	t.Parallel()
	here := testDevice(t)
	setEnv(t, "RAMJET_DEVICE", "roce:203.0.113.7")
	ramjetCmd(t, "ping", "-s").wantError(t, cli.ExitUsage, "(RAMJET_DEVICE=roce:203.0.113.7 stands for --device)")
	r := ramjetCmd(t, "ping", "-c", "-a", "127.0.0.1", "-d", "rose:x")
	if r.wantError(t, cli.ExitUsage, `no device kind "rose"`); strings.Contains(r.stderr, "RAMJET_DEVICE") {
		t.Errorf("the flag was given: %s", r.stderr)
	}
	r = ramjetCmd(t, "doctor")
	if r.status != cli.ExitFailed || !strings.Contains(r.stdout, "problem: RAMJET_DEVICE: roce:203.0.113.7 cannot be") {
		t.Errorf("exit status %d: %s", r.status, r.stdout)
	}
	setEnv(t, "RAMJET_DEVICE", "iwarp:"+host(here))
	ramjetCmd(t, "bench", "notification", "--peers", "1", "-n", "20").wantSuccess(t)
	if r := ramjetCmd(t, "bench", "registration", "-s", "4K", "--runs", "1", "-D", "10ms"); r.status != 0 ||
		!strings.Contains(r.stdout, "iwarp:"+host(here)) {
		t.Errorf("exit status %d\n%s%s", r.status, r.stdout, r.stderr)
	}
}

// A log is explained, and findings that fit it are marked.
func TestDoctorLog(t *testing.T) {
	log := filepath.Join(t.TempDir(), "job.log")
	if err := os.WriteFile(log, []byte("starting\nibv_create_cq() failed: Cannot allocate memory\n"),
		0o666); err != nil {
		t.Fatal(err)
	}
	r := ramjetCmd(t, "doctor", "--log", log)
	for _, want := range []string{"What the log says", "Line 2 of 2",
		"ibv_create_cq failed: Cannot allocate memory (ENOMEM)", "the log says"} {
		if !strings.Contains(strings.Join(strings.Fields(r.stdout), " "), want) {
			t.Errorf("no %q in\n%s%s", want, r.stdout, r.stderr)
		}
	}
	if err := os.WriteFile(log, []byte("all is well\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	ramjetCmd(t, "doctor", "--log", log).wantError(t, cli.ExitUsage, "no line of")
	ramjetCmd(t, "doctor", "--log", log+".not").wantError(t, cli.ExitUsage, "give a file that can be read")
}

// With a device the report is of that one; a host may have a port.
func TestDoctorDevice(t *testing.T) {
	t.Parallel()
	here := testDevice(t)
	r := ramjetCmd(t, "doctor", here)
	if r.status != 0 && r.status != cli.ExitFailed || !strings.Contains(r.stdout, here+": can be opened") ||
		strings.Contains(r.stdout, "devices in software") {
		t.Errorf("exit status %d: %s%s", r.status, r.stdout, r.stderr)
	}
	if r := ramjetCmd(t, "doctor", "roce:203.0.113.7"); r.status != cli.ExitFailed ||
		!strings.Contains(r.stdout, "problem: roce:203.0.113.7: it cannot be") {
		t.Errorf("exit status %d: %s", r.status, r.stdout)
	}
	if r := ramjetCmd(t, "doctor", "127.0.0.1:7000"); !strings.Contains(r.stdout, "The way to 127.0.0.1") {
		t.Errorf("exit status %d: %s%s", r.status, r.stdout, r.stderr)
	}
}
