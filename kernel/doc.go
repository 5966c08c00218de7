// SPDX-License-Identifier: Apache-2.0

// Package kernel is RDMA hardware: the devices of the kernel, such as mlx5_0, and its software ones, rxe0
// and siw0. It calls the system's libibverbs.so.1, which it finds at run time, without cgo.
//
// A program that imports the package can open them by name, and nothing else in it changes:
//
//	import _ "github.com/ramjet-rdma/ramjet/kernel"
//
//	dev, err := ramjet.Open("kernel:mlx5_0")
//
// Such a program needs the dynamic linker and the C library of the system; without the package it is a
// static binary that needs neither (docs/decisions/0028-hardware.md).
//
// Work requests and completions are laid out in memory that C reads, which a queue has from its first
// use on: posting a list is one call, and so is polling many completions, and neither allocates. Programs
// that wait do so at descriptors in Go's poller, of which a device has two. Memory of Go is pinned as long
// as it is registered.
//
// Operations that a device lacks return verbs.ErrNotSupported. docs/kernel.md says more.
package kernel
