// SPDX-License-Identifier: Apache-2.0

package cdevices

import (
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
)

func TestRecordingName(t *testing.T) {
	for pattern, want := range map[string]string{
		"a.pcapng": "a.pcapng", "a-%p.pcapng": "a-42.pcapng", "%p/%p": "42/42", "100%%p": "100%p", "50%": "50%",
		"%x": "%x",
	} {
		if got := RecordingName(pattern, 42); got != want {
			t.Errorf("%s: %s, want %s", pattern, got, want)
		}
	}
}

// Files of one name that are created at once are different files, and none of them was there before.
func TestCreateRecording(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "a.b.pcapng")
	if err := os.WriteFile(name, []byte("of an earlier run"), 0o666); err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			f, err := CreateRecording(name)
			if err != nil {
				t.Error(err)
				return
			}
			f.Close()
		})
	}
	all.Wait()
	found, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil || len(found) != 9 || !slices.Contains(found, filepath.Join(dir, "a.b-2.pcapng")) ||
		!slices.Contains(found, filepath.Join(dir, "a.b-9.pcapng")) {
		t.Errorf("%q, %v", found, err)
	}
	if b, err := os.ReadFile(name); err != nil || string(b) != "of an earlier run" {
		t.Errorf("%q, %v", b, err)
	}
	for _, bad := range []string{dir, filepath.Join(dir, "none", "a.pcapng")} {
		if f, err := CreateRecording(bad); err == nil {
			f.Close()
			t.Errorf("%s is created", bad)
		}
		if err := CheckRecording(bad); err == nil {
			t.Errorf("%s is taken for good", bad)
		}
	}
	if err := CheckRecording(filepath.Join(dir, "new")); err != nil {
		t.Error(err)
	}
	if after, _ := filepath.Glob(filepath.Join(dir, ".*")); len(after) != 0 {
		t.Errorf("left: %q", after)
	}
	f, err := CreateRecording(os.DevNull)
	if err != nil || f.Name() != os.DevNull {
		t.Errorf("%v", err)
	} else {
		f.Close()
	}
}
