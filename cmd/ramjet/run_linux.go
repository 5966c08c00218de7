// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"syscall"
)

// execProgram becomes another program; it returns only if that fails.
func execProgram(path string, args, env []string) error {
	return fmt.Errorf("%s: %w", path, syscall.Exec(path, args, dedup(env)))
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

// isOurs says whether there is a folder that nobody but this user can have written to.
func isOurs(dir string) bool {
	fi, err := os.Lstat(dir)
	if err != nil || !fi.IsDir() || fi.Mode().Perm() != 0o700 {
		return false
	}
	st, is := fi.Sys().(*syscall.Stat_t)
	return is && int(st.Uid) == os.Getuid()
}
