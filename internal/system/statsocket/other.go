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

// Collector takes the state of processes that connect.
type Collector struct{}

// NewCollector returns a collector without folders.
func NewCollector() *Collector { return &Collector{} }

// Listen returns ErrUnsupported.
func (*Collector) Listen(name, folder string) error { return ErrUnsupported }

// Remove does nothing.
func (*Collector) Remove(name string) error { return nil }

// Close does nothing.
func (*Collector) Close() error { return nil }

// Counts returns no folder.
func (*Collector) Counts() map[string]int { return nil }

// Read returns ErrUnsupported.
func (*Collector) Read(context.Context, func(name string, p *Process)) error { return ErrUnsupported }

// Watcher watches the packets of a queue pair of another process.
type Watcher struct{}

// Watch returns ErrUnsupported.
func Watch(context.Context, int, string, verbs.QPN) (*Watcher, error) { return nil, ErrUnsupported }

// Last returns ErrUnsupported.
func (*Watcher) Last(context.Context, int) (*observe.Packets, error) { return nil, ErrUnsupported }

// Close does nothing.
func (*Watcher) Close() error { return nil }
