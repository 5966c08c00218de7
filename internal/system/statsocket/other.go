// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package statsocket

import (
	"context"

	"github.com/ramjet-rdma/ramjet/verbs"
)

// Show returns the device, which others cannot see.
func Show(dev *verbs.Device) *verbs.Device { return dev }

// Read returns ErrUnsupported.
func Read(context.Context, int) ([]Process, error) { return nil, ErrUnsupported }
