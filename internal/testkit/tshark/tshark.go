// SPDX-License-Identifier: Apache-2.0

// Package tshark has tests read recordings with Wireshark's dissectors.
package tshark

import (
	"errors"
	"os/exec"
	"strings"
	"testing"
)

// Need skips the test where the program is not installed.
func Need(t testing.TB) {
	t.Helper()
	if _, err := exec.LookPath("tshark"); err != nil {
		t.Skip("tshark is not installed (Debian: apt-get install tshark)")
	}
}

// Read returns the program's output for a file.
func Read(t testing.TB, file string, args ...string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "tshark", append([]string{"-r", file}, args...)...).Output()
	if err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			t.Logf("tshark says: %s", exit.Stderr)
		}
		t.Fatalf("tshark %s: %v", strings.Join(args, " "), err)
	}
	return string(out)
}
