// SPDX-License-Identifier: Apache-2.0

//go:build linux

package ibverbs

import "github.com/ebitengine/purego"

// Call calls a function of C that returns an int.
func (a *Args) Call(fn uintptr) int {
	r, _, _ := purego.SyscallN(fn, a.A, a.B, a.C)
	return int(int32(r))
}
