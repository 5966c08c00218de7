// SPDX-License-Identifier: Apache-2.0

//go:build linux

package runcmd

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A folder without all of the libraries is passed over, and a folder that is named is the only one.
func TestRunFindsLibraries(t *testing.T) {
	home := t.TempDir()
	t.Setenv("HOME", home)
	t.Setenv("RAMJET_LIBS", "")
	dir := filepath.Join(home, ".local", "lib", "ramjet")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for i, lib := range runLibs {
		if found, _ := findLibs(""); found == dir {
			t.Errorf("found with %d of %d libraries", i, len(runLibs))
		}
		if err := os.WriteFile(filepath.Join(dir, lib), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if found, err := findLibs(""); err != nil || found != dir {
		t.Errorf("%q %v, want %s", found, err, dir)
	}
	other := t.TempDir()
	t.Setenv("RAMJET_LIBS", other)
	if _, err := findLibs(""); err == nil || !strings.Contains(err.Error(),
		"is not in "+other+": run `cabi/build.sh "+other+"`") {
		t.Errorf("RAMJET_LIBS names an empty folder: %v", err)
	}
	if found, err := findLibs(dir); err != nil || found != dir {
		t.Errorf("--libs: %q %v, want %s", found, err, dir)
	}
}

// The remedy can be pasted into a shell.
func TestRunSaysHowToBuildLibraries(t *testing.T) {
	const module = `bash "$(go list -m -f '{{.Dir}}' github.com/ramjet-rdma/ramjet@v1.2.3)/cabi/build.sh"`
	for _, c := range []struct{ version, folder, want string }{
		{"v1.2.3", "", "run `" + module + "`, "},
		{"v1.2.3", "/opt/lib", "run `" + module + " /opt/lib`, "},
		{"(devel)", "", "run `cabi/build.sh` in a checkout of Ramjet, "},
		{"v1.2.4-0.20261124015136-68e4557a0000+dirty", "/opt/lib",
			"run `cabi/build.sh /opt/lib` in a checkout of Ramjet, "},
	} {
		if got := howToBuildLibs(c.version, c.folder); !strings.HasPrefix(got, c.want) {
			t.Errorf("%s: %s, want %s", c.version, got, c.want)
		}
	}
}
