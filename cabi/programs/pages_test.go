// SPDX-License-Identifier: Apache-2.0

//go:build linux && !race

package programs

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
)

// While pages of a receive are protected, faults of a program are its own, and so is a child's memory. An access is
// found.
func TestProtectedPages(t *testing.T) {
	dir, program := need(t), filepath.Join(t.TempDir(), "pages")
	text, err := exec.Command("gcc", "-O1", "-g", "-Wall", "-pthread", "-o", program, "testdata/protect/pages.c",
		"../../checksuite/c/suite.c", filepath.Join(dir, "librdmacm.so.1"),
		filepath.Join(dir, "libibverbs.so.1")).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	run := ramjet(t)
	t.Run("not-preloaded", func(t *testing.T) {
		cmd := command(t.Context(), dir, serverAddr, program, "right")
		cmd.Env = append(cmd.Env, "RAMJET_CHECK=protect")
		out, _ := cmd.CombinedOutput() // it has SIGSEGV blocked, so that its own faults end it
		if !strings.Contains(string(out), "no pages are protected") {
			t.Errorf("%s", out)
		}
	})
	for _, c := range []struct {
		name, said string
		status     int // -1: ended by SIGSEGV
	}{
		{"right", "", 0},
		{"handler-before", "", 0},
		{"crash", "", -1},
		{"crash-without-handler", "", -1},
		{"handler-that-blocks", "of mr2 was written", 66},
		{"fork", "", 0},
		{"touch", "of mr2 was ", 66},
		{"call", "", 0},
		{"write", "", 0},
		{"shared", "", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			calls := filepath.Join(t.TempDir(), "calls")
			cmd := command(t.Context(), dir, serverAddr, run, "run", "--libs", dir, "--check=protect", "--log="+calls,
				"--log-filter=ibv_post_recv", "--", program, c.name)
			out, err := cmd.CombinedOutput()
			status := 0
			var failed *exec.ExitError
			if errors.As(err, &failed) {
				status = failed.ExitCode()
				if w := failed.Sys().(syscall.WaitStatus); w.Signaled() && w.Signal() != syscall.SIGSEGV {
					t.Errorf("ended by %v", w.Signal())
				}
			} else if err != nil {
				t.Fatal(err)
			}
			log, err := os.ReadFile(calls)
			if err != nil || !regexp.MustCompile(`ibv_post_recv\(.*>\n\z`).Match(log) {
				t.Errorf("%v, or the log is not whole:\n%s", err, log)
			}
			if status != c.status || strings.Contains(string(out), "receive-touched") != (c.said != "") ||
				!strings.Contains(string(out), c.said) {
				t.Errorf("status %d, not %d, or other findings than %q:\n%s", status, c.status, c.said, out)
			}
		})
	}
}
