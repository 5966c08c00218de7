// SPDX-License-Identifier: Apache-2.0

package softdev

import (
	"time"

	"github.com/ramjet-rdma/ramjet/internal/base/clock"
)

const (
	// allLost is the score of waits whose polls never find anything, and oneIn the part of it that one wait
	// decides on. Up to mostLost a wait polls: so it does if every other one finds something.
	allLost  = 1 << 10
	oneIn    = 4
	mostLost = allLost * 5 / 8
	// firstProbe is how long after a wait whose polls found nothing, while waits do not poll, one does to find out
	// whether it would pay again. Each that does not doubles that, up to lastProbe.
	firstProbe = clock.Time(2 * time.Millisecond)
	lastProbe  = clock.Time(32 * time.Millisecond)
)

// adaptiveSpin decides whether a wait polls before it sleeps. Polling for as long as a wake-up costs, and
// sleeping then, never takes more than twice the best possible time (the ski rental problem). On a machine
// with other work a wait that polls takes the processor from the program that is to answer, and finds nothing. So
// waits poll while that has found something at least half of the time, and else try now and then.
type adaptiveSpin struct {
	lost  int        // of allLost
	every clock.Time // between probes
	next  clock.Time // when a wait polls as a probe
}

// polls reports whether a wait that begins now polls.
func (a *adaptiveSpin) polls(now clock.Time) bool { return a.lost <= mostLost || now >= a.next }

// polled notes that a wait has polled, until now, and whether it found anything.
func (a *adaptiveSpin) polled(now clock.Time, found bool) {
	paid := a.lost <= mostLost
	a.lost -= a.lost / oneIn
	switch {
	case found:
		a.next = now
		return
	case paid:
		a.every = firstProbe
	default:
		a.every = min(2*a.every, lastProbe)
	}
	a.lost += allLost / oneIn
	a.next = now + a.every
}
