// SPDX-License-Identifier: Apache-2.0

package main

import (
	"github.com/ramjet-rdma/ramjet/cmd/ramjet/internal/cli"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// The program of a module of its own is started with all arguments, its exit status is the command's, which adds no
// words to the program's, and without the program the error says how to get it.
func TestPrograms(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("the stand-in is a shell script")
	}
	dir := t.TempDir()
	t.Setenv("PATH", dir)
	for _, p := range modulePrograms {
		if _, err := os.Stat(filepath.Join("..", "..", p.folder, "cmd", p.program)); err != nil {
			t.Error(err)
		}
		ramjetCmd(t, p.command, "--check").wantError(t, cli.ExitUsage, "neither beside this command nor in PATH")
		help := ramjetCmd(t, p.command, "--help")
		help.wantSuccess(t)
		if !strings.Contains(strings.Join(strings.Fields(help.stdout), " "), p.what) { // whose lines break anywhere
			t.Errorf("%s", help.stdout)
		}
		script := "#!/bin/sh\nif [ \"$1\" = fail ]; then echo why >&2; exit 7; fi\necho \"$@\"\n"
		if err := os.WriteFile(filepath.Join(dir, p.program), []byte(script), 0o700); err != nil {
			t.Fatal(err)
		}
		r := ramjetCmd(t, p.command, "--config", "x y", "--check")
		r.wantSuccess(t)
		if r.stdout != "--config x y --check\n" {
			t.Errorf("%q", r.stdout)
		}
		if r := ramjetCmd(t, p.command, "fail"); r.status != 7 || r.stderr != "why\n" {
			t.Errorf("a program that fails: %d, %q", r.status, r.stderr)
		}
	}
}
