// SPDX-License-Identifier: Apache-2.0

//go:build linux && !race

package programs

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// No function of the libraries ends the process in Go when all of its arguments are NULL or 0. testdata/arguments.c has
// arguments of which only some are wrong.
func TestCallsOfNothing(t *testing.T) {
	dir := need(t)
	program := filepath.Join(t.TempDir(), "calls")
	out, err := exec.Command("gcc", "-D_GNU_SOURCE", "-O1", "-g", "-Wall", "-Werror", "-o", program,
		"testdata/calls/calls.c", filepath.Join(dir, "libibverbs.so.1"), "-ldl").CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	args := []string{program}
	for library, script := range map[string]string{
		"libibverbs.so.1": "ibverbs", "librdmacm.so.1": "rdmacm", "libibumad.so.3": "ibumad",
	} {
		for _, name := range exported(t, "../c/"+script+".map") {
			args = append(args, filepath.Join(dir, library)+":"+name)
		}
	}
	if len(args) < 200 {
		t.Fatalf("only %d functions were found", len(args)-1)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	out, err = command(ctx, dir, serverAddr, args...).CombinedOutput()
	if err != nil || !strings.Contains(string(out), "all returned") {
		t.Errorf("%v\n%s", err, out)
	}
}

// exported returns the functions of a linker's version script, without the functions for drivers.
func exported(t *testing.T, script string) (names []string) {
	t.Helper()
	text, err := os.ReadFile(script)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile(
		`(?m)^\s+((?:ibv|_ibv|rdma|umad|mbps|mult|r[a-ik-z])[a-z0-9_]*);`).FindAllStringSubmatch(string(text), -1) {
		if m[1] != "rselect" { // of nothing without a timeout it waits for ever, as select does
			names = append(names, m[1])
		}
	}
	return names
}
