// SPDX-License-Identifier: Apache-2.0

//go:build linux && !race

package programs

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// An unmodified program survives lost packets that `ramjet run --faults` asks for, and the log of lost packets is the
// next run's list of faults.
func TestRunWithFaults(t *testing.T) {
	dir := need(t, "ibv_rc_pingpong")
	run, folder := ramjet(t)+" run --libs "+dir, t.TempDir()
	faults := filepath.Join(folder, "faults")
	if err := os.WriteFile(faults, []byte("loss nth 20,50 sent of send\nduplicate nth 70 sent\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"first", "second"} {
		log := filepath.Join(folder, name)
		c := pair{server: "ibv_rc_pingpong -g 0 -n 200 -c -p PORT", want: "iters in",
			client: run + " --faults " + faults + " --fault-log " + log +
				" -- ibv_rc_pingpong -g 0 -n 200 -c -p PORT SERVER"}
		c.run(t)
		text, err := os.ReadFile(log)
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{
			"loss nth 20 sent of send device roce:" + clientAddr + "  # ", "loss nth 50 sent of send",
			"duplicate nth 70 sent", ": struck ", "# faults of roce:" + clientAddr + ":\n",
		} {
			if !strings.Contains(string(text), want) {
				t.Errorf("the log of the %s run has no %q:\n%s", name, want, text)
			}
		}
		faults = log
	}
}

// A call that fails is the program's own error, and a wrong fault is reported before the program runs.
func TestRunWithFailingCall(t *testing.T) {
	dir := need(t, "ibv_rc_pingpong")
	run := []string{ramjet(t), "run", "--libs", dir}
	out, err := command(t.Context(), dir, serverAddr,
		append(run, "--faults", "fail reg_mr ENOMEM nth 1", "--", "ibv_rc_pingpong", "-g", "0")...).CombinedOutput()
	if err == nil || !strings.Contains(string(out), "Couldn't register MR") ||
		!strings.Contains(string(out), "ramjet: fault: fail reg_mr ENOMEM nth 1") {
		t.Errorf("%v:\n%s", err, out)
	}
	out, err = command(t.Context(), dir, serverAddr,
		append(run, "--faults", "fail reg_mrr ENOMEM", "--", "ibv_rc_pingpong", "-g", "0")...).CombinedOutput()
	if err == nil || !strings.Contains(string(out), `--faults: line 1, column 6: "reg_mrr"`) ||
		strings.Contains(string(out), "local address") {
		t.Errorf("%v:\n%s", err, out)
	}
}

// A program on librdmacm, which sees an errno only, says which fault its device does not support.
func TestRunWithUnsupportedFault(t *testing.T) {
	dir := need(t, "rping")
	out, err := command(t.Context(), dir, "iwarp:"+serverAddr, ramjet(t), "run", "--libs", dir, "--faults", "loss 1%",
		"--", "rping", "-s", "-a", serverAddr).CombinedOutput()
	if err == nil || !strings.Contains(string(out), "`loss 1%`: not supported by this device") {
		t.Errorf("%v:\n%s", err, out)
	}
}

// A program hears of the events that RAMJET_FAULTS asks for, with the objects that they are of.
func TestInjectedEvents(t *testing.T) {
	dir := need(t)
	program := filepath.Join(t.TempDir(), "program")
	if out, err := exec.Command("gcc", "-D_GNU_SOURCE", "-O1", "-g", "-Wall", "-Werror", "-o", program,
		"testdata/faults/events.c", filepath.Join(dir, "libibverbs.so.1")).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, kind := range []string{"roce", "shm"} {
		t.Run(kind, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
			defer cancel()
			c := command(ctx, dir, kind+":"+serverAddr, program)
			const faults = "event PORT_ERR nth 1; event QP_FATAL nth 1 qp 2nd; event DEVICE_FATAL nth 3"
			c.Env = append(c.Env, "RAMJET_FAULTS="+faults)
			out, err := c.CombinedOutput()
			if err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			for want := range strings.SplitSeq(faults, "; ") {
				if !strings.Contains(string(out), "ramjet: fault: "+want) {
					t.Errorf("the log has no %q:\n%s", want, out)
				}
			}
		})
	}
}
