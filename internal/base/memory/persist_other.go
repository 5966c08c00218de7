// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package memory

import "errors"

// CanPersist reports whether memory can be made persistent on this system. Even if it can, nothing
// tells for which memory.
const CanPersist = false

// Persist fails.
func Persist([]byte) error { return errors.ErrUnsupported }

func fileBacked([]byte) bool { return false }
