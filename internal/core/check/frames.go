// SPDX-License-Identifier: Apache-2.0

//go:build (amd64 || arm64) && !purego

package check

// returnAddresses fills in the return addresses of its callers, the innermost first, and returns how many there are. It
// follows frame pointers as far as the stack of the goroutine goes: C code in between ends it. Functions that were
// inlined have none. It is in assembly as the stack must not move meanwhile.
//
//go:noescape
func returnAddresses(pcs []uintptr) int
