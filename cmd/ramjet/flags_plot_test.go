// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"testing"
)

// A command that draws nothing removes the files that it created, and no others.
func TestPlotFilesDiscarded(t *testing.T) {
	dir := t.TempDir()
	created, there, replaced := filepath.Join(dir, "created"), filepath.Join(dir, "there"), filepath.Join(dir, "replaced")
	if err := os.WriteFile(there, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	p := plotFiles{svg: plotFile{name: created}, png: plotFile{name: there}}
	q := plotFiles{svg: plotFile{name: replaced}}
	for _, f := range []*plotFiles{&p, &q} {
		if err := f.open(); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Remove(replaced); err != nil {
		t.Skip(err) // not while it is open, on this system
	}
	if err := os.WriteFile(replaced, []byte("of another"), 0o600); err != nil {
		t.Fatal(err)
	}
	p.discard()
	q.discard()
	for name, want := range map[string]bool{created: false, there: true, replaced: true} {
		if _, err := os.Stat(name); (err == nil) != want {
			t.Errorf("%s: %v", name, err)
		}
	}
}
