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

	"github.com/ramjet-rdma/ramjet/internal/app/doctor"
	"github.com/ramjet-rdma/ramjet/internal/system/rdmasys"
)

// Doctor says how this machine is, whatever it is, as text and as JSON, and its exit status agrees.
func TestDoctor(t *testing.T) {
	t.Parallel()
	text := ramjetCmd(t, "doctor", "127.0.0.1")
	for _, want := range []string{"Ramjet's devices in software", "The way to 127.0.0.1", "it is this host", "in order of preference"} {
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
	if want := doctor.Problems(got.Findings) > 0; (r.status == exitFailed) != want || (r.status == 0) == want {
		t.Errorf("exit status %d, findings %+v", r.status, got.Findings)
	}
	if got.System == nil || len(got.Soft) == 0 || got.Peer == nil || got.Peer.Addr != netip.MustParseAddr("127.0.0.1") || len(got.Peer.Best) == 0 {
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
	ramjetCmd(t, "doctor", "no.such.host.invalid").wantError(t, exitUsage, "give a name that resolves, or an address")
	ramjetCmd(t, "doctor", "a", "b").wantError(t, exitUsage, "is one argument too many: write `ramjet doctor [HOST | DEVICE]`")
}

// The exit status follows the problems, not the notes.
func TestDoctorStatus(t *testing.T) {
	f := &doctor.Facts{System: &rdmasys.System{}}
	note, problem := doctor.Finding{Level: doctor.Note}, doctor.Finding{Level: doctor.Problem}
	for _, c := range []struct {
		found []doctor.Finding
		want  string
	}{
		{nil, ""},
		{[]doctor.Finding{note}, ""},
		{[]doctor.Finding{problem, note}, "1 problem to fix"},
		{[]doctor.Finding{problem, problem}, "2 problems to fix"},
	} {
		for _, asJSON := range []bool{false, true} {
			err := writeDiagnosis(new(strings.Builder), f, c.found, asJSON)
			if (err != nil) != (c.want != "") || err != nil && err.Error() != c.want || err != nil && exitStatus(failed(err)) != exitFailed {
				t.Errorf("%+v: %v", c.found, err)
			}
		}
	}
}

// Each command that takes --device takes it from the environment where it is not given.
func TestDeviceFromEnvironment(t *testing.T) {
	t.Setenv("RAMJET_DEVICE", "rose:192.0.2.7")
	args := map[string]string{
		"cp": "cp a 127.0.0.1:", "ls": "ls 127.0.0.1:", "pipe": "pipe -l 7000", "serve": "serve .", "ping": "ping -s", "demo": "demo", "run": "run -- true",
		"perf table": "perf table", "bench notification": "bench notification", "bench registration": "bench registration",
		"pingpong rc": "pingpong rc", "pingpong uc": "pingpong uc", "pingpong ud": "pingpong ud", "pingpong srq": "pingpong srq", "pingpong xsrq": "pingpong xsrq",
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
			return // it says first what is missing
		}
		r.wantError(t, exitUsage, `RAMJET_DEVICE: "rose:192.0.2.7": no device kind "rose"`)
	})
	if seen < 15 {
		t.Errorf("only %d commands have --device", seen)
	}
}

// A flag comes before the environment, a kind is taken out of a name, and an error says where the name
// is from.
func TestDeviceFromEnvironmentValues(t *testing.T) {
	here := testDevice(t)
	t.Setenv("RAMJET_DEVICE", "roce:203.0.113.7")
	ramjetCmd(t, "ping", "-s").wantError(t, exitUsage, "(RAMJET_DEVICE=roce:203.0.113.7 stands for --device)")
	r := ramjetCmd(t, "ping", "-c", "-a", "127.0.0.1", "-d", "rose:x")
	if r.wantError(t, exitUsage, `no device kind "rose"`); strings.Contains(r.stderr, "RAMJET_DEVICE") {
		t.Errorf("the flag was given: %s", r.stderr)
	}
	r = ramjetCmd(t, "doctor")
	if r.status != exitFailed || !strings.Contains(r.stdout, "problem: RAMJET_DEVICE: roce:203.0.113.7 cannot be") {
		t.Errorf("exit status %d: %s", r.status, r.stdout)
	}
	t.Setenv("RAMJET_DEVICE", "iwarp:"+host(here))
	ramjetCmd(t, "bench", "notification", "--peers", "1", "-n", "20").wantSuccess(t)
	if r := ramjetCmd(t, "bench", "registration", "-s", "4K", "--runs", "1", "-D", "10ms"); r.status != 0 || !strings.Contains(r.stdout, "iwarp:"+host(here)) {
		t.Errorf("exit status %d\n%s%s", r.status, r.stdout, r.stderr)
	}
}

// A log is explained, and what is wrong here and fits it is marked.
func TestDoctorLog(t *testing.T) {
	log := filepath.Join(t.TempDir(), "job.log")
	if err := os.WriteFile(log, []byte("starting\nibv_create_cq() failed: Cannot allocate memory\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	r := ramjetCmd(t, "doctor", "--log", log)
	for _, want := range []string{"What the log says", "Line 2 of 2", "ibv_create_cq failed: Cannot allocate memory (ENOMEM)", "the log says"} {
		if !strings.Contains(strings.Join(strings.Fields(r.stdout), " "), want) {
			t.Errorf("no %q in\n%s%s", want, r.stdout, r.stderr)
		}
	}
	if err := os.WriteFile(log, []byte("all is well\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	ramjetCmd(t, "doctor", "--log", log).wantError(t, exitUsage, "no line of")
	ramjetCmd(t, "doctor", "--log", log+".not").wantError(t, exitUsage, "give a file that can be read")
}

// With a device the report is of that one; a host may have a port.
func TestDoctorDevice(t *testing.T) {
	t.Parallel()
	here := testDevice(t)
	r := ramjetCmd(t, "doctor", here)
	if r.status != 0 && r.status != exitFailed || !strings.Contains(r.stdout, here+": can be opened") || strings.Contains(r.stdout, "devices in software") {
		t.Errorf("exit status %d: %s%s", r.status, r.stdout, r.stderr)
	}
	if r := ramjetCmd(t, "doctor", "roce:203.0.113.7"); r.status != exitFailed || !strings.Contains(r.stdout, "problem: roce:203.0.113.7: it cannot be") {
		t.Errorf("exit status %d: %s", r.status, r.stdout)
	}
	if r := ramjetCmd(t, "doctor", "127.0.0.1:7000"); !strings.Contains(r.stdout, "The way to 127.0.0.1") {
		t.Errorf("exit status %d: %s%s", r.status, r.stdout, r.stderr)
	}
}

// The address of a service is known by the variables of a container, and by its name in DNS; that of a pod is not one.
func TestServiceOf(t *testing.T) {
	environment := []string{"KUBERNETES_SERVICE_HOST=10.96.0.1", "IB_WRITE_BW_SERVICE_HOST=fd00:96::7", "IB_WRITE_BW_SERVICE_PORT=10.96.0.9", "X_SERVICE_HOST=None"}
	for address, want := range map[string]string{"10.96.0.1": "kubernetes", "fd00:96::7": "ib-write-bw", "10.96.0.9": ""} {
		got := ""
		if s := serviceIn(environment, netip.MustParseAddr(address)); s != nil {
			got = s.Name
		}
		if got != want {
			t.Errorf("%s: %q, want %q", address, got, want)
		}
	}
	for name, want := range map[string]string{
		"db.ml.svc.cluster.local.": "ml/db", "10-244-0-7.db.ml.svc.cluster.local.": "", "host.example.com.": "", "svc.": "", "a.b.svc": "",
	} {
		got := ""
		if s := serviceNamed([]string{"other.", name}); s != nil {
			got = s.Name
		}
		if got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}
