// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"os/exec"
	"strings"
	"testing"
)

// Commands that need /proc say so where it is hidden, and what to do.
func TestWithoutProc(t *testing.T) {
	const hide = "mount -t tmpfs none /proc"
	if out, err := exec.Command("unshare", "-rm", "sh", "-c", hide).CombinedOutput(); err != nil {
		t.Skipf("no namespaces of its own: %v: %s", err, out)
	}
	for args, want := range map[string]string{
		"demo":                    "mount /proc",
		"perf send bw --loopback": "mount /proc",
		"doctor":                  "mount -t proc proc /proc",
		"stat":                    "found in /proc, which cannot be read here",
	} {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		out, err := exec.CommandContext(ctx, "unshare", "-rm", "sh", "-c",
			hide+" && exec "+program+" "+args).CombinedOutput()
		if failed := (*exec.ExitError)(nil); !errors.As(err, &failed) || failed.ExitCode() != 1 ||
			!strings.Contains(string(out), want) {
			t.Errorf("%s: %v: %s", args, err, out)
		}
	}
}
