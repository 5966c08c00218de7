// SPDX-License-Identifier: Apache-2.0

//go:build cabi && linux

// Command cabi is the Go half of Ramjet's libibverbs.so.1 and librdmacm.so.1: a C shared
// library, libramjet.so, that the two C halves in folder c load when a program first needs
// a device. See docs/c-programs.md; build.sh builds all three.
//
// C knows the objects here by handles; nothing in C points into Go's memory. Work requests
// and completions are read and written where C has them, a whole list in one call.
package main

// #cgo CFLAGS: -I${SRCDIR}/c
import "C"

func main() {}
