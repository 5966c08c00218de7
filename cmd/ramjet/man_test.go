// SPDX-License-Identifier: Apache-2.0

package main

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/ramjet-rdma/ramjet/cmd/ramjet/internal/cli"
	"github.com/ramjet-rdma/ramjet/internal/app/manual"
)

// Every command that help shows has a page with all of its flags, and groff, where it is installed,
// has nothing against it.
func TestMan(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "man", "man1") // not there yet
	ramjetCmd(t, "man", dir).wantSuccess(t)
	groff, missing := exec.LookPath("groff")
	root := newRootCmd(io.Discard)
	commands := manual.Commands(root)
	if len(commands) < 15 {
		t.Errorf("only %d commands", len(commands))
	}
	for _, c := range commands {
		path := filepath.Join(dir, manual.Name(c)+".1")
		page, err := os.ReadFile(path)
		if err != nil {
			t.Error(err)
			continue
		}
		c.LocalFlags().VisitAll(func(f *pflag.Flag) {
			if name := strings.ReplaceAll("--"+f.Name, "-", `\-`); !f.Hidden &&
				!strings.Contains(string(page), name+`\fR`) {
				t.Errorf("%s: no --%s", c.CommandPath(), f.Name)
			}
		})
		if missing == nil {
			if out, err := exec.Command(groff, "-man", "-Tutf8", "-ww", "-z", path).CombinedOutput(); err != nil ||
				len(out) > 0 {
				t.Errorf("%s: %v: %s", path, err, out)
			}
		}
	}
	ramjetCmd(t, "man", filepath.Join(dir, "ramjet.1")).wantError(t, cli.ExitUsage, "not a directory")
}
