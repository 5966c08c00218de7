// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package memory

import "errors"

// CanPersist says whether there is a way to make memory persistent on this system. There may
// be one, but none to know which memory it works for.
const CanPersist = false

// Persist fails.
func Persist([]byte) error { return errors.ErrUnsupported }

func fileBacked([]byte) bool { return false }
