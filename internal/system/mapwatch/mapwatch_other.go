// SPDX-License-Identifier: Apache-2.0

//go:build !linux || !(amd64 || arm64 || riscv64)

package mapwatch

import (
	"errors"
	"sync"
)

// Watcher is not available.
type Watcher struct{}

// New fails.
func New(sync.Locker, func(from, to uintptr)) (*Watcher, error) {
	return nil, errors.New(
		"only Linux on amd64, arm64 and riscv64 tells of memory that is unmapped (userfaultfd with write protection)")
}

// Watch does nothing.
func (w *Watcher) Watch(from, to uintptr) error { return nil }

// Unwatch does nothing.
func (w *Watcher) Unwatch(from, to uintptr) {}

// Close does nothing.
func (w *Watcher) Close() error { return nil }
