// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package statsocket

import (
	"context"

	"github.com/ramjet-rdma/ramjet/internal/core/observe"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// Publish returns the device, which others cannot see.
func Publish(dev *verbs.Device) *verbs.Device { return dev }

// Read returns ErrUnsupported.
func Read(context.Context, int) ([]Process, error) { return nil, ErrUnsupported }

// Faults returns ErrUnsupported.
func Faults(context.Context, int, *observe.FaultRequest) ([]observe.DeviceFaults, error) {
	return nil, ErrUnsupported
}

// Watcher watches the packets of a queue pair of another process.
type Watcher struct{}

// Watch returns ErrUnsupported.
func Watch(context.Context, int, string, verbs.QPN) (*Watcher, error) { return nil, ErrUnsupported }

// Last returns ErrUnsupported.
func (*Watcher) Last(context.Context, int) (*observe.Packets, error) { return nil, ErrUnsupported }

// Close does nothing.
func (*Watcher) Close() error { return nil }
