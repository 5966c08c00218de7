// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package main

import (
	"runtime"

	"github.com/spf13/cobra"
)

// execProgram fails: there are no libraries for this system.
func execProgram(string, []string, []string, string, bool) error {
	return usagef("C programs run on Ramjet on Linux only, not on %s", runtime.GOOS)
}

func runHelpers() []*cobra.Command { return nil }
