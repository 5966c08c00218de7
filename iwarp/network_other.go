// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package iwarp

import (
	"fmt"
	"net/netip"
	"runtime"

	"github.com/ramjet-rdma/ramjet/internal/core/streamdev"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// newNetwork fails: readiness of many sockets requires epoll.
func newNetwork(netip.Addr, *Options) (streamdev.Network, error) {
	return nil, fmt.Errorf("iWARP needs Linux, this is %s: %w", runtime.GOOS, verbs.ErrNotSupported)
}
