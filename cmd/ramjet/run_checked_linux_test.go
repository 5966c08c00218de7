// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ramjet-rdma/ramjet"
	"github.com/ramjet-rdma/ramjet/internal/testkit/loopback"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// checkedEnv has TestCheckedProgram be a program that is checked: the variable says which objects it leaves, and how it
// ends.
const checkedEnv = "RAMJET_TEST_CHECKED"

// TestCheckedProgram is the program of TestRunChecked.
func TestCheckedProgram(t *testing.T) {
	what := os.Getenv(checkedEnv)
	if what == "" {
		t.Skip("it is run by TestRunChecked")
	}
	dev, _ := loopback.Open(t, func(addr string) (*verbs.Device, error) { return ramjet.Open("roce:" + addr) })
	if _, err := dev.AllocPD(); err != nil {
		t.Fatal(err)
	}
	switch what {
	case "closed":
		dev.Close()
	case "ended":
		os.Exit(ramjet.EndChecks())
	case "fails":
		os.Exit(3)
	case "killed":
		if err := exec.Command("kill", "-TERM", "--", os.Getenv("RAMJET_TEST_PARENT")).Run(); err != nil {
			t.Fatal(err)
		}
		select {}
	}
	os.Exit(0)
}

// Objects that a program in Go leaves are reported once it has ended, and the command ends as the program does.
func TestRunChecked(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("HOME", t.TempDir()) // where no libraries are
	t.Setenv("TMPDIR", t.TempDir())
	for _, c := range []struct {
		what, options string
		status        int
		reports       int
	}{
		{"closed", "1", 0, 0},
		{"left", "1", 66, 1},
		{"left", "exitcode=0", 0, 1},
		{"left", "off=leak", 0, 0},
		{"fails", "1", 3, 1},
		{"ended", "1", 66, 1}, // reported by the program itself
		{"killed", "1", -1, 0},
	} {
		t.Run(c.what+" "+c.options, func(t *testing.T) {
			cmd, end := command(t.Context(), t, "run", "--check="+c.options, "--", self,
				"-test.run=^TestCheckedProgram$")
			cmd.Env = append(os.Environ(), checkedEnv+"="+c.what)
			if c.what == "killed" { // the program has its signal from the one that has started it
				cmd.Path, cmd.Args = "/bin/sh",
					append([]string{"sh", "-c", `RAMJET_TEST_PARENT=$$ exec "$0" "$@"`}, cmd.Args...)
			}
			r := end(t, cmd.Run())
			if r.status != c.status || strings.Count(r.stderr, "ramjet check: leak:") != c.reports {
				t.Errorf("status %d and not %d, %d reports wanted:\n%s%s", r.status, c.status, c.reports, r.stdout,
					r.stderr)
			}
			if c.reports > 0 && !strings.Contains(r.stderr, ".TestCheckedProgram()") {
				t.Errorf("no stack:\n%s", r.stderr)
			}
		})
	}
	if left, _ := filepath.Glob(filepath.Join(os.TempDir(), "ramjet-check-*")); len(left) > 0 {
		t.Errorf("folders are left: %v", left)
	}
}
