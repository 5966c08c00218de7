// SPDX-License-Identifier: Apache-2.0

package softdev

import (
	"fmt"
	"sync"

	"github.com/ramjet-rdma/ramjet/internal/ibta"
	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/wire/ib"
)

// Sharer is a Port whose address several devices can share, mostly those of several
// processes. Its methods come without the device's lock, but for Manage.
type Sharer interface {
	// Slot is the device's number among those that share the address, below
	// 1 << ibta.PrefixBits. It is the prefix of the device's queue pair numbers and ids.
	Slot() int
	// Claim reserves service ids among all devices of the address; see verbs.GSI.
	Claim(service, mask uint64) error
	Release(service, mask uint64)
	// Manage notes whether the device's QP1 is open: a management datagram that is for
	// nobody in particular goes to one whose is.
	Manage(open bool)
}

// slot returns the prefix of the device's queue pair numbers.
func (d *Device) slot() uint32 {
	if s, ok := d.port.(Sharer); ok {
		return uint32(s.Slot())
	}
	return 0
}

// newQPN returns a random number that is free and has the device's prefix; 0 and 1 are
// special, all ones is multicast.
func (d *Device) newQPN() verbs.QPN {
	const bits = 24 - ibta.PrefixBits
	prefix := verbs.QPN(d.slot() << bits)
	for {
		n := prefix | verbs.QPN(random32()&(1<<bits-1))
		if n > 1 && n != ib.QPNMulticast && d.qps[n] == nil {
			return n
		}
	}
}

// IDs keeps the top bits of ids for the device's slot where the address can be shared.
func (g *gsi) IDs() (base, mask uint32) {
	const bits = 32 - ibta.PrefixBits
	if _, ok := g.dev.port.(Sharer); !ok {
		return 0, 0
	}
	return g.dev.slot() << bits, ^uint32(1<<bits - 1)
}

// claims are the service ids that a device has claimed. Their lock is not needed to move
// data: other processes may make a claim wait.
type claims struct {
	mu    sync.Mutex
	masks map[uint64]uint64 // by service id
	ended bool
}

// Claim reserves service ids in this device, and then among those of the address.
func (g *gsi) Claim(service, mask uint64) error {
	c := &g.claims
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended {
		return verbs.ErrClosed
	}
	for other, m := range c.masks {
		if (other^service)&m&mask == 0 {
			return &verbs.OpError{Op: "claim_service", Err: verbs.ErrBusy,
				Detail: fmt.Sprintf("service id %#x has a listener in this process: use another port or service id", service)}
		}
	}
	if s, ok := g.dev.port.(Sharer); ok {
		if err := s.Claim(service, mask); err != nil {
			return err
		}
	}
	if c.masks == nil {
		c.masks = make(map[uint64]uint64)
	}
	c.masks[service] = mask
	return nil
}

// Release gives up what was claimed with service.
func (g *gsi) Release(service uint64) {
	c := &g.claims
	c.mu.Lock()
	defer c.mu.Unlock()
	if mask, claimed := c.masks[service]; claimed {
		g.release(service, mask)
	}
}

func (g *gsi) release(service, mask uint64) {
	delete(g.claims.masks, service)
	if s, ok := g.dev.port.(Sharer); ok {
		s.Release(service, mask)
	}
}

// manage tells the port whether QP1 is open; the device's lock is held, for the order.
func (d *Device) manage(open bool) {
	if s, ok := d.port.(Sharer); ok {
		s.Manage(open)
	}
}

// releaseAll gives up everything, for good.
func (g *gsi) releaseAll() {
	c := &g.claims
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ended = true
	for service, mask := range c.masks {
		g.release(service, mask)
	}
}
