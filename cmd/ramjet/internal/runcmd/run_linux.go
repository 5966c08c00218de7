// SPDX-License-Identifier: Apache-2.0

package runcmd

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/ramjet-rdma/ramjet/internal/device/kinds"
)

// execProgram becomes another program, which finds the libraries in a folder. It returns only if
// that fails.
func execProgram(path string, args, env []string, libs string, sockets bool) error {
	if libs == "" { // a program in Go, where there are none for C programs
		return become(path, args, env)
	}
	if root, err := showDevices(env); err != nil {
		fmt.Fprintf(os.Stderr, "ramjet run: programs that look into /sys find no devices: %v\n", err)
	} else {
		if args[0] == filepath.Base(RDMATool) {
			path = filepath.Join(root, RDMATool)
		}
		env = append(env, SysfsVariable+"="+root, before(env, "LD_PRELOAD", filepath.Join(libs, sysfsLib)),
			before(env, "PATH", filepath.Join(root, filepath.Dir(RDMATool))))
	}
	if v, _ := lookup(env, kinds.CheckVariable); v != "" && v != "0" {
		env = append(env, before(env, "LD_PRELOAD", filepath.Join(libs, checkLib)))
	}
	if sockets {
		env = append(env, before(env, "LD_PRELOAD", filepath.Join(libs, socketsLib)))
	}
	return become(path, args, env)
}

// become becomes another program. One in Go that is checked, or injected with faults, becomes a second process, as
// nothing of Ramjet's runs in it when it ends.
func become(path string, args, env []string) error {
	if isReported(env) && isGoProgram(path) {
		return runWatched(path, args, env)
	}
	return fmt.Errorf("%s: %w", path, syscall.Exec(path, args, dedup(env)))
}

// showDevices writes the sysfs description of an environment's devices for the program.
func showDevices(env []string) (root string, err error) {
	s, err := describe(env, false)
	if err != nil {
		return "", err
	}
	f, err := folderOf(s)
	if err != nil {
		return "", err
	}
	return f.root, f.keep()
}

// dedup keeps the last value of each variable: the dynamic linker takes the first.
func dedup(env []string) []string {
	last := map[string]string{}
	for _, e := range env {
		name, _, _ := strings.Cut(e, "=")
		last[name] = e
	}
	return slices.Collect(maps.Values(last))
}

// Helpers are the hidden commands with which this one starts itself.
func Helpers() []*cobra.Command { return []*cobra.Command{newSweeperCmd(), newSysfsWriterCmd()} }
