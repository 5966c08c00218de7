// SPDX-License-Identifier: Apache-2.0

package fabric

import (
	"sync/atomic"

	"github.com/ramjet-rdma/ramjet/internal/engine/link"
)

// A fabric in memory loses a packet only where it decides to, so it can count them all: with the count unchanged,
// packets that have not been acknowledged are late, and a requester need not send them again.

// losses counts packets that did not get to the queue pair that they were sent to.
type losses struct {
	dropped uint64 // by the fabric's own code, beyond the network's; the fabric's lock is held
	devices atomic.Uint64
	fabric  atomic.Uint64 // dropped and the network's, as published
	unknown atomic.Bool   // a cable leads to another process, and loses packets unnoticed
}

// publishLosses makes the counts visible to attachments.
func (f *Fabric) publishLosses() {
	if n := f.losses.dropped + f.net.Losses(); n != f.losses.fabric.Load() {
		f.losses.fabric.Store(n)
	}
	if far := len(f.remotes) > 0; far != f.losses.unknown.Load() {
		f.losses.unknown.Store(far)
	}
}

// lose releases a packet that no attachment takes.
func (f *Fabric) lose(p *link.Packet) {
	f.losses.dropped++
	f.net.Release(p)
}

// Losses returns how many packets were lost in the fabric so far, or dropped by the devices at its adapters. Known
// is false if a cable leads out of it, on which packets may be lost without being counted. It takes no lock.
func (s *Attachment) Losses() (n uint64, known bool) {
	l := &s.f.losses
	return l.fabric.Load() + l.devices.Load(), !l.unknown.Load()
}

// RefreshLosses has nothing to do: the number is always new.
func (s *Attachment) RefreshLosses() {}

// Dropped reports that the attachment's device has dropped n packets that it had received.
func (s *Attachment) Dropped(n uint64) { s.f.losses.devices.Add(n) }
