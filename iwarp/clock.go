// SPDX-License-Identifier: Apache-2.0

package iwarp

import (
	"sync/atomic"
	"time"
)

// began is the origin of instants.
var began = time.Now().Add(-time.Second) // so that no instant is zero

// instant is a monotonic time in nanoseconds that fits in atomic variables. It is not affected by
// changes of the system's clock. Zero means none.
type instant int64

func instantOf(t time.Time) instant {
	if t.IsZero() {
		return 0
	}
	return max(1, instant(t.Sub(began)))
}

func now() instant { return instantOf(time.Now()) }

// until returns the time from now to i; it is negative if i has passed.
func (i instant) until() time.Duration { return time.Duration(i - now()) }

// deadline is the time when a wait ends at the latest.
type deadline struct{ at atomic.Int64 }

func (d *deadline) get() instant { return instant(d.at.Load()) }

// set reports whether t is earlier than the previous deadline: then a waiter has to be woken.
func (d *deadline) set(t time.Time) (earlier bool) {
	at := int64(instantOf(t))
	old := d.at.Swap(at)
	return at != 0 && (old == 0 || at < old)
}
