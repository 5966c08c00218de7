// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package main

import "runtime"

// execProgram has no libraries to offer here.
func execProgram(string, []string, []string) error {
	return usagef("C programs run on Ramjet on Linux only, not on %s", runtime.GOOS)
}

func isOurs(string) bool { return false }
