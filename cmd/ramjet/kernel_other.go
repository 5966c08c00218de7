// SPDX-License-Identifier: Apache-2.0

//go:build !linux || (!amd64 && !arm64) || nokernel

package main

import "github.com/ramjet-rdma/ramjet"

// hardware is nothing: the command is built without devices of the kernel.
func hardware() []ramjet.Option { return nil }
