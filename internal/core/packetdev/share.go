// SPDX-License-Identifier: Apache-2.0

package packetdev

import (
	"fmt"

	"github.com/ramjet-rdma/ramjet/internal/base/lockorder"
	"github.com/ramjet-rdma/ramjet/internal/core/softdev"
	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/wire/ib"
	wire "github.com/ramjet-rdma/ramjet/wire/mad"
)

// Sharer is a Port whose address several devices can share, usually in several processes. Its
// methods are called without the device's lock, except Serve.
type Sharer interface {
	// Prefix is the first bits of the device's queue pair numbers and ids, which distinguish the
	// devices that share the address.
	Prefix() (slot uint32, bits int)
	// Claim reserves service ids among all devices of the address; see umad.Agent.
	Claim(service, mask uint64) error
	Release(service, mask uint64)
	// Serve records whether the device has an agent for a management class: an unsolicited datagram
	// of the class goes to a device that has one.
	Serve(class uint8, yes bool)
}

// prefix returns the lane's prefix in numbers of size bits, and the mask of its bits.
func (l *lane) prefix(size int) (base, mask uint32) {
	if s, ok := l.port.(Sharer); ok {
		slot, bits := s.Prefix()
		return slot << (size - bits), (1<<bits - 1) << (size - bits)
	}
	return 0, 0
}

// newQPN returns a random free number with the lane's prefix. 0 and 1 are special, all ones is
// multicast.
func (l *lane) newQPN() verbs.QPN {
	base, mask := l.prefix(24)
	for {
		n := verbs.QPN(base | softdev.Random32()&0xffffff&^mask)
		if n > 1 && n != ib.QPNMulticast && l.dev.QPs[n] == nil {
			return n
		}
	}
}

// IDs reserves the top bits of ids for the device's prefix if the address can be shared.
func (a *agent) IDs() (base, mask uint32) { return a.dev.lane.prefix(32) }

// claims are the service ids that a device has claimed. They have a lock of their own, because
// other processes may make a claim wait.
type claims struct {
	mu    lockorder.Mutex[lockorder.Claims]
	masks map[uint64]uint64 // by service id
	ended bool
}

// Claim reserves service ids in this device, and then among the devices of the address.
func (a *agent) Claim(service, mask uint64) error {
	if a.spec.Class != wire.ClassCM || len(a.spec.Methods) == 0 {
		return &verbs.OpError{Op: "claim_service", Err: verbs.ErrInvalid,
			Detail: "service ids are those of an agent that takes requests of connection managers"}
	}
	c := &a.claims
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended {
		return verbs.ErrClosed
	}
	for other, m := range c.masks {
		if (other^service)&m&mask == 0 {
			return &verbs.OpError{Op: "claim_service", Err: verbs.ErrBusy,
				Detail: fmt.Sprintf("service id %#x has a listener in this process: use another port or service id",
					service)}
		}
	}
	if s, ok := a.dev.port.(Sharer); ok {
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

// Release gives up the claim of service.
func (a *agent) Release(service uint64) {
	c := &a.claims
	c.mu.Lock()
	defer c.mu.Unlock()
	if mask, claimed := c.masks[service]; claimed {
		a.release(service, mask)
	}
}

func (a *agent) release(service, mask uint64) {
	delete(a.claims.masks, service)
	if s, ok := a.dev.port.(Sharer); ok {
		s.Release(service, mask)
	}
}

// serve tells the port whether a class has an agent; the device's lock keeps the order.
func (d *Device) serve(class wire.Class, yes bool) {
	if s, ok := d.port.(Sharer); ok {
		s.Serve(uint8(class), yes)
	}
}

// releaseAll gives up all claims for good.
func (a *agent) releaseAll() {
	c := &a.claims
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ended = true
	for service, mask := range c.masks {
		a.release(service, mask)
	}
}
