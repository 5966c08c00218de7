// SPDX-License-Identifier: Apache-2.0

//go:build !(linux || darwin || freebsd || netbsd || openbsd)

package filecopy

import "os"

// lockFile does nothing: this system has other locks.
func lockFile(*os.File) error { return nil }
