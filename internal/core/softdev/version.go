// SPDX-License-Identifier: Apache-2.0

package softdev

import (
	"runtime/debug"
	"sync"
)

// Module is the path of Ramjet's module.
const Module = "github.com/ramjet-rdma/ramjet"

// release is the version of the programs of a release, such as v1.2.3: set by the linker (-X).
var release string

// Version returns the module's version, which devices give as that of their firmware.
func Version() string { return version() }

var version = sync.OnceValue(func() string {
	if release != "" {
		return release
	}
	if info, ok := debug.ReadBuildInfo(); ok {
		if info.Main.Path == Module && info.Main.Version != "" {
			return info.Main.Version
		}
		for _, m := range info.Deps {
			if m.Path == Module {
				return m.Version
			}
		}
	}
	return "(devel)"
})
