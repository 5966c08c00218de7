// SPDX-License-Identifier: Apache-2.0

//go:build !linux || (!amd64 && !arm64)

package kernel

import (
	"fmt"
	"runtime"

	"github.com/ramjet-rdma/ramjet/verbs"
)

// Open returns ErrNotSupported: devices of the kernel are opened on Linux, on amd64 and arm64.
func Open(name string) (*verbs.Device, error) {
	return nil, fmt.Errorf("kernel: %q: %w: RDMA hardware is opened on Linux on amd64 and arm64, and this is %s on %s",
		name, verbs.ErrNotSupported, runtime.GOOS, runtime.GOARCH)
}
