// SPDX-License-Identifier: Apache-2.0

package iwarp

import (
	"sync/atomic"
	"time"
)

// began is where instants count from.
var began = time.Now().Add(-time.Second) // none is zero

// instant is a time that atomic variables can have, in nanoseconds. It goes on steadily while the
// system's clock is set. Zero is none.
type instant int64

func instantOf(t time.Time) instant {
	if t.IsZero() {
		return 0
	}
	return max(1, instant(t.Sub(began)))
}

func now() instant { return instantOf(time.Now()) }

// until is how long it is from now to i; negative: it is over.
func (i instant) until() time.Duration { return time.Duration(i - now()) }

// deadline is when a wait ends at the latest.
type deadline struct{ at atomic.Int64 }

func (d *deadline) get() instant { return instant(d.at.Load()) }

// set returns whether it is earlier than before: who waits has to know.
func (d *deadline) set(t time.Time) (earlier bool) {
	at := int64(instantOf(t))
	old := d.at.Swap(at)
	return at != 0 && (old == 0 || at < old)
}
