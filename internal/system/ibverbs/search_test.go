// SPDX-License-Identifier: Apache-2.0

package ibverbs

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// The linker's configuration is read with its includes, and Ramjet's own library is passed over.
func TestSearch(t *testing.T) {
	dir := t.TempDir()
	at := func(parts ...string) string { return filepath.Join(append([]string{dir}, parts...)...) }
	file := func(path, text string) {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	file(at("ld.so.conf"), "# comment\ninclude conf.d/*.conf\n"+at("second")+"  # last\nrelative\ninclude ld.so.conf\n")
	file(at("conf.d", "a.conf"), at("ours")+"\n\n")
	dirs := directories(at("ld.so.conf"))
	if i, j := slices.Index(dirs, at("ours")), slices.Index(dirs, at("second")); i != 0 || j < 1 ||
		slices.Contains(dirs, "relative") {
		t.Errorf("%q", dirs)
	}
	dirs = []string{at("nowhere"), at("ours"), at("second")}
	if _, err := findIn(dirs, "lib.so.1"); !errors.Is(err, ErrNoLibrary) {
		t.Errorf("no library: %v", err)
	}
	file(at("ours", "lib.so.1"), "")
	file(at("ours", "libramjet.so"), "")
	if _, err := findIn(dirs, "lib.so.1"); !errors.Is(err, ErrNoLibrary) ||
		!strings.Contains(err.Error(), "Ramjet's own") {
		t.Errorf("Ramjet's own: %v", err)
	}
	file(at("second", "lib.so.1"), "")
	if path, err := findIn(dirs, "lib.so.1"); err != nil || path != at("second", "lib.so.1") {
		t.Errorf("%s, %v", path, err)
	}
	// A link to Ramjet's own is Ramjet's own.
	if err := os.MkdirAll(at("links"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(at("ours", "lib.so.1"), at("links", "lib.so.1")); err != nil {
		t.Skip(err)
	}
	if !Ours(at("links", "lib.so.1")) || Ours(at("second", "lib.so.1")) {
		t.Error("a link to Ramjet's library is not recognised, or another one is")
	}
}
