// SPDX-License-Identifier: Apache-2.0

// Package ibverbs calls the system's libibverbs.so.1 without cgo: it finds the library at run time,
// has the layouts of its structures, and calls its functions and the functions of a context's table,
// as the inline functions of infiniband/verbs.h do. It knows nothing of package verbs.
//
// Structures are generated from the installed headers (go generate) and named as there:
// ibv_send_wr is SendWR. A test compiles a C program and compares every offset.
//
// Memory that C reads is the caller's: allocated on the heap, reachable during the call and, where
// C or the structure itself keeps its address, pinned.
//
// The package is empty but for Linux on amd64 and arm64.
package ibverbs

//go:generate go run gen.go
