// SPDX-License-Identifier: Apache-2.0

package runcmd

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestFaultEnvironment: a text and a file reach the program, and a typing error does not.
func TestFaultEnvironment(t *testing.T) {
	dir := t.TempDir()
	good, bad := filepath.Join(dir, "good"), filepath.Join(dir, "bad")
	for name, text := range map[string]string{good: "loss 1%\n", bad: "loss 1%\n  fail reg_mrr EIO\n"} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		faults, log string
		want        []string
	}{
		{"", "", nil},
		{"loss 1%; corrupt nth 3", "", []string{"RAMJET_FAULTS=loss 1%; corrupt nth 3"}},
		{"@" + good, "", []string{"RAMJET_FAULTS=@" + good}},
		{good, filepath.Join(dir, "log"), []string{"RAMJET_FAULTS=@" + good,
			"RAMJET_FAULT_LOG=" + filepath.Join(dir, "log")}},
	} {
		if got, err := faultEnvironment(c.faults, c.log); err != nil || !slices.Equal(got, c.want) {
			t.Errorf("%q: %q, %v", c.faults, got, err)
		}
	}
	if _, err := faultEnvironment("nofile", ""); err == nil || !strings.Contains(err.Error(), "or the name of a file") {
		t.Error(err)
	}
	for arg, want := range map[string]string{"@/nofile": "--faults: open /nofile: ",
		"los 1%": `--faults: line 1, column 1: "los"`, bad: "--faults: " + bad + `: line 2, column 8: "reg_mrr"`} {
		if _, err := faultEnvironment(arg, ""); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%q: %v", arg, err)
		}
	}
}
