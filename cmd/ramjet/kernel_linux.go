// SPDX-License-Identifier: Apache-2.0

//go:build (amd64 || arm64) && !nokernel

package main

// With this package the command opens devices of the kernel. With the build tag nokernel it is without, and a static
// binary, for systems that have no glibc.
import _ "github.com/ramjet-rdma/ramjet/kernel"
