// SPDX-License-Identifier: Apache-2.0

package softdev

import (
	"fmt"

	"github.com/ramjet-rdma/ramjet/verbs"
)

// Limits of every device in software, as verbs.DeviceAttr tells them.
const (
	maxQP      = 1 << 16
	maxWR      = 1 << 14
	maxSGE     = 32
	maxInline  = 1 << 12
	maxCQE     = 1 << 22
	maxSRQWR   = 1 << 16
	maxObjects = 1 << 16 // of each other kind
	maxAtomics = 128
	maxMessage = 1 << 31
)

// counts is how many objects of each kind a device has.
type counts struct {
	domains, regions, windows, handles, queues, xrcDomains count
}

// count is how many objects of one kind there are: maxObjects at most.
type count int

// add counts one object more; ErrNoMemory: there are as many as there may be.
func (c *count) add() error {
	if *c >= maxObjects {
		return errTooMany
	}
	*c++
	return nil
}

func (c *count) remove() { *c-- }

var errTooMany = fmt.Errorf("%w: the device has no more than %d of these", verbs.ErrNoMemory, maxObjects)
