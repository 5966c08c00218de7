// SPDX-License-Identifier: Apache-2.0

package softdev

import (
	"runtime/debug"
	"sync"
)

// Version returns the module's version, which devices give as that of their firmware.
func Version() string { return version() }

var version = sync.OnceValue(func() string {
	const path = "github.com/ramjet-rdma/ramjet"
	if info, ok := debug.ReadBuildInfo(); ok {
		if info.Main.Path == path && info.Main.Version != "" {
			return info.Main.Version
		}
		for _, m := range info.Deps {
			if m.Path == path {
				return m.Version
			}
		}
	}
	return "(devel)"
})
