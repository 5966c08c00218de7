// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/ramjet-rdma/ramjet/cmd/ramjet/internal/cli"
	"github.com/ramjet-rdma/ramjet/internal/core/observe"
)

// Faults of a process that runs are set, shown, counted and ended.
func TestFault(t *testing.T) {
	t.Parallel()
	device, pid := serving(t)
	fault := func(args ...string) result { return ramjetCmd(t, append([]string{"fault", pid}, args...)...) }
	says := func(want string, args ...string) {
		t.Helper()
		r := fault(args...)
		r.wantSuccess(t)
		if r.stdout != want {
			t.Errorf("fault %q says\n%s\nwant\n%s", args, r.stdout, want)
		}
	}
	for until := time.Now().Add(patience); fault().status != 0; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(until) {
			t.Fatalf("%+v", fault())
		}
	}
	says(device + ": no faults\n")
	both := device + ":\n" +
		"  loss 1%: never struck: there were no packets that it selects\n" +
		"  delay 10ms 2ms sent: never struck: there were no packets that it selects\n"
	says(both, "loss 1%", "delay 10ms 2ms sent")
	says(both)
	says(both, "-d", device)

	says(device+":\n  loss nth 3 sent: never struck: there were no packets that it selects\n",
		writeFiles(t, "faults", "loss nth 3 sent\n"))
	file := filepath.Join(t.TempDir(), "file")
	writeRandom(t, file, 100_000)
	ramjetCmd(t, "cp", "-d", testDevice(t), file, host(device)+":").wantSuccess(t)
	r := fault("--json")
	r.wantSuccess(t)
	var all struct {
		PID     int                    `json:"pid"`
		Devices []observe.DeviceFaults `json:"devices"`
	}
	if err := json.Unmarshal([]byte(r.stdout), &all); err != nil || all.PID == 0 || len(all.Devices) != 1 ||
		len(all.Devices[0].Faults) != 1 {
		t.Fatalf("%v: %s", err, r.stdout)
	}
	if f := all.Devices[0].Faults[0]; f.Fault != "loss nth 3 sent" || f.Struck != 1 || f.Selected < 3 ||
		f.Unit != "packets" {
		t.Errorf("%+v", f)
	}

	// What has struck is told after its end, too.
	ended := regexp.MustCompile(`^  loss nth 3 sent: struck 1 of \d+ packets, and has ended\n$`)
	const other = "  fail reg_mr ENOMEM: never struck: there were no reg_mr calls that it selects\n"
	for _, c := range []struct {
		begin string
		args  []string
	}{{device + ": no faults\n", []string{"--clear"}}, {device + ": no faults\n", nil},
		{device + ":\n" + other, []string{"fail reg_mr ENOMEM"}}, {device + ": no faults\n", []string{"--clear"}}} {
		r := fault(c.args...)
		r.wantSuccess(t)
		if rest, ok := strings.CutPrefix(r.stdout, c.begin); !ok || !ended.MatchString(rest) {
			t.Errorf("fault %q says\n%s", c.args, r.stdout)
		}
	}
}

// A fault that cannot be carried out is an error, and changes nothing.
func TestFaultErrors(t *testing.T) {
	t.Parallel()
	device, pid := serving(t)
	for until := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		r := ramjetCmd(t, "fault", pid, "rnr nth 5")
		if r.status == 0 {
			break
		}
		if time.Now().After(until) {
			t.Fatalf("%+v", r)
		}
	}
	bad := writeFiles(t, "bad", "loss 1%\nfail reg_mrr EIO\n")
	for _, c := range []struct {
		args   []string
		status int
		text   string
	}{
		{nil, cli.ExitUsage, "an argument is missing"},
		{[]string{"one"}, cli.ExitUsage, `"one" is not a process id`},
		{[]string{"0", "loss 1%"}, cli.ExitUsage, `"0" is not a process id`},
		{[]string{"1", "loss 1%"}, cli.ExitFailed, "process 1 has no open device whose faults could be set"},
		{[]string{pid, "los 1%"}, cli.ExitUsage, `the fault "los 1%": line 1, column 1: "los"`},
		{[]string{pid, "loss"}, 0, ""},
		{[]string{pid, "loss 1%", "loss 101%"}, cli.ExitUsage, `the fault "loss 101%"`},
		{[]string{pid, ""}, cli.ExitUsage, `"" has no fault: --clear ends those that there are`},
		{[]string{pid, "seed 4"}, cli.ExitUsage, `"seed 4" has no fault`},
		{[]string{pid, bad}, cli.ExitUsage, bad + `: line 2, column 6: "reg_mrr"`},
		{[]string{pid, "--clear", "loss 1%"}, cli.ExitUsage, `--clear ends the faults: leave out "loss 1%"`},
		{[]string{pid, "-d", "roce:192.0.2.99"}, cli.ExitFailed, "the process has no device roce:192.0.2.99"},
	} {
		r := ramjetCmd(t, append([]string{"fault"}, c.args...)...)
		if c.status == 0 {
			r.wantSuccess(t)
			continue
		}
		r.wantError(t, c.status, c.text)
	}
	if r := ramjetCmd(t, "fault", pid); !strings.HasPrefix(r.stdout, device+":\n  loss: ") {
		t.Errorf("%s", r.stdout)
	}
}
