// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// A command that draws nothing removes the files that it created, and no others.
func TestPlotFilesDiscarded(t *testing.T) {
	dir := t.TempDir()
	created, there, replaced := filepath.Join(dir, "created"), filepath.Join(dir, "there"),
		filepath.Join(dir, "replaced")
	if err := os.WriteFile(there, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	p := PlotFiles{SVG: plotFile{Name: created}, PNG: plotFile{Name: there}}
	q := PlotFiles{SVG: plotFile{Name: replaced}}
	for _, f := range []*PlotFiles{&p, &q} {
		if err := f.Open(); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Remove(replaced); err != nil {
		t.Skip(err) // not while it is open, on this system
	}
	if err := os.WriteFile(replaced, []byte("of another"), 0o600); err != nil {
		t.Fatal(err)
	}
	p.Discard()
	q.Discard()
	for name, want := range map[string]bool{created: false, there: true, replaced: true} {
		if _, err := os.Stat(name); (err == nil) != want {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// An error names the flag that gave the name.
func TestPlotFilesFlag(t *testing.T) {
	file := filepath.Join(t.TempDir(), "none", "x")
	for _, args := range [][2]string{{"--svg", file}, {"--png", file}, {"-o", file + ".svg"}, {"-o", file + ".png"}} {
		var p PlotFiles
		c := &cobra.Command{}
		p.Add(c)
		if err := c.ParseFlags(args[:]); err != nil {
			t.Fatal(err)
		}
		if err := p.Open(); err == nil || !strings.HasPrefix(err.Error(), args[0]+": ") {
			t.Errorf("%v: %v", args, err)
		}
	}
}
