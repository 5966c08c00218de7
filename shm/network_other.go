// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package shm

import (
	"fmt"
	"net/netip"
	"runtime"

	"github.com/ramjet-rdma/ramjet/internal/core/memorydev"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// newNetwork fails: memory that cannot be taken back, and descriptors that are passed, are Linux's.
func newNetwork(netip.Addr, *Options) (memorydev.Network, error) {
	return nil, fmt.Errorf("shared memory needs Linux, this is %s: %w", runtime.GOOS, verbs.ErrNotSupported)
}

func oneSided(*Options) string { return "" }
