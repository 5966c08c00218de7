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
	seen   uint32        // count that the device's goroutine counts from
	seenAt ibta.Time
}

// longPoll is how many polls one counts for that moved a lot of data, and so took as long as
// many that find nothing.
const longPoll = busyPolls / 2

// polled notes polls: one, or what a long one counts for.
func (d *core) polled(n uint32) {
	if d.pollers.count.Add(n)%longPoll < n {
		d.pollers.recent.Store(int64(d.now()))
	}
}

// toiled notes a poll of a program that moved so much since the one before that it cannot poll
// often. It is believed to come again within a lease: with the device's goroutine there would
// be three threads for the data of two.
func (d *core) toiled() {
	d.pollers.count.Add(busyPolls)
	d.pollers.recent.Store(int64(d.now() + ibta.Time(lease)))
}

// busy says whether a program has polled a lot of late. The device's goroutine calls it.
func (p *pollers) busy(now ibta.Time) bool {
	n := p.count.Load()
	if n-p.seen >= busyPolls && now-ibta.Time(p.recent.Load()) < recently {
		p.seen, p.seenAt = n, now
		return true
	}
	if now-p.seenAt > recently { // too few in that time
		p.seen, p.seenAt = n, now
	}
	return false
}
