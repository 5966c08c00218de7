// SPDX-License-Identifier: Apache-2.0

package pollwait

import (
	"sync/atomic"
	"time"
)

// began is the origin of instants.
var began = time.Now().Add(-time.Second) // so that no instant is zero

// Instant is a monotonic time in nanoseconds that fits in atomic variables. It is not affected by
// changes of the system's clock. Zero means none.
type Instant int64

func instantOf(t time.Time) Instant {
	if t.IsZero() {
		return 0
	}
	return max(1, Instant(t.Sub(began)))
}

// Now returns the current instant.
func Now() Instant { return instantOf(time.Now()) }

// Until returns the time from now to i; it is negative if i has passed.
func (i Instant) Until() time.Duration { return time.Duration(i - Now()) }

// Deadline is the time when a wait ends at the latest.
type Deadline struct{ at atomic.Int64 }

// Get returns the deadline; 0: there is none.
func (d *Deadline) Get() Instant { return Instant(d.at.Load()) }

// Set sets it, and reports whether t is earlier than the previous deadline: then a waiter has to be woken.
func (d *Deadline) Set(t time.Time) (earlier bool) {
	at := int64(instantOf(t))
	old := d.at.Swap(at)
	return at != 0 && (old == 0 || at < old)
}

// Left returns the time until the deadline, for Poll: negative if there is none, 0 if it has passed.
func (d *Deadline) Left() time.Duration {
	at := d.Get()
	if at == 0 {
		return -1
	}
	return max(0, at.Until())
}
