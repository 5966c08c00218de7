// SPDX-License-Identifier: Apache-2.0

package softdev

import (
	"sync/atomic"

	"github.com/ramjet-rdma/ramjet/internal/ibta"
)

// pollers knows whether programs poll. It needs no lock: a goroutine that queues for the
// device's lock while programs poll would make Go hand it over, which stalls them for as long
// as a thread takes to wake.
type pollers struct {
	count  atomic.Uint32 // polls
	recent atomic.Int64  // time of a recent poll; zero: the program said that it sleeps
	seen   uint32        // count when the device's goroutine looked last
}

// polled notes a poll that found nothing in its queue.
func (d *Device) polled() {
	if d.pollers.count.Add(1)%16 == 0 {
		d.pollers.recent.Store(int64(d.now()))
	}
}

// busy says whether a program has polled a lot since the last call. The device's goroutine
// calls it.
func (p *pollers) busy(now ibta.Time) bool {
	n := p.count.Load()
	polls := n - p.seen
	p.seen = n
	return polls >= busyPolls && now-ibta.Time(p.recent.Load()) < recently
}
