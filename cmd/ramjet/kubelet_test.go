// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// The program of a module of its own is started with all arguments, and its absence says how to get it.
func TestKubelet(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("the stand-in is a shell script")
	}
	dir := t.TempDir()
	t.Setenv("PATH", dir)
	ramjetCmd(t, "kubelet", "--check").wantError(t, exitUsage, "neither beside this command nor in PATH")
	help := ramjetCmd(t, "kubelet", "--help")
	help.wantSuccess(t)
	if !strings.Contains(help.stdout, "device plugin") {
		t.Errorf("%s", help.stdout)
	}
	script := "#!/bin/sh\necho \"$@\"\n"
	if err := os.WriteFile(filepath.Join(dir, kubeletProgram), []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	r := ramjetCmd(t, "kubelet", "--config", "x y", "--check")
	r.wantSuccess(t)
	if r.stdout != "--config x y --check\n" {
		t.Errorf("%q", r.stdout)
	}
}
