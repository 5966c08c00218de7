// SPDX-License-Identifier: Apache-2.0

//go:build cabi && linux

// Command cabi is libramjet.so, the Go half of Ramjet's C libraries. The C halves in folder c,
// libibverbs.so.1 and librdmacm.so.1, load it when a program first asks for devices. build.sh builds
// all of them; ARCHITECTURE.md has a map of the C files, and docs/c-programs.md is for users.
//
// C knows the objects here by handles; nothing in C points into Go's memory. Work requests and
// completions are read and written where C has them, a whole list in one call.
package main

// #cgo CFLAGS: -I${SRCDIR}/c
import "C"

func main() {}
