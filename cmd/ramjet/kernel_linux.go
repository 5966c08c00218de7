// SPDX-License-Identifier: Apache-2.0

//go:build (amd64 || arm64) && !nokernel

package main

import (
	"github.com/ramjet-rdma/ramjet"
	"github.com/ramjet-rdma/ramjet/kernel"
)

// hardware is what the command opens devices of the kernel with. With the build tag nokernel it is without, and
// a static binary, for systems that have no glibc.
func hardware() []ramjet.Option { return []ramjet.Option{ramjet.WithKernel(kernel.Open)} }
