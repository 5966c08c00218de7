// SPDX-License-Identifier: Apache-2.0

package softdev

import (
	"fmt"
	"sync/atomic"

	"github.com/ramjet-rdma/ramjet/internal/base/memory"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// Limits of every software device, as in verbs.DeviceAttr.
const (
	MaxQP      = MaxObjects
	maxWR      = 1 << 14
	maxSGE     = 32
	maxInline  = 1 << 12
	maxCQE     = 1 << 22
	maxSRQWR   = 1 << 16
	MaxObjects = 1 << 16 // of each other kind
	maxAtomics = 128
	maxMessage = memory.MaxMessage
)

// counts is the number of objects of each kind of a device.
type counts struct {
	domains, regions, windows, Handles, completionQueues, receiveQueues, queuePairs, XRCDomains count
}

// count is the number of objects of one kind, at most MaxObjects. It changes with the lock held.
type count struct{ n atomic.Int64 }

// Add counts one more object. It returns ErrNoMemory if the limit is reached.
func (c *count) Add() error {
	if c.n.Load() >= MaxObjects {
		return errTooMany
	}
	c.n.Add(1)
	return nil
}

func (c *count) Remove() { c.n.Add(-1) }

var errTooMany = fmt.Errorf("%w: the device has no more than %d of these", verbs.ErrNoMemory, MaxObjects)
