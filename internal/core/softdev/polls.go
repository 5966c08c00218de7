// SPDX-License-Identifier: Apache-2.0

package softdev

import (
	"sync/atomic"
	"time"

	"github.com/ramjet-rdma/ramjet/internal/base/clock"
)

const (
	// GracePeriod is how long the device's goroutine leaves a polling program alone before it
	// looks again, and crowdedGrace where that takes the processor from others.
	GracePeriod  = time.Millisecond
	crowdedGrace = 4 * time.Millisecond
	// busyPolls say that a program polls which has slept until then. gracePolls during a grace period, the last of them
	// recently, say that it still does: with a deep queue each poll finds much, and there are few.
	busyPolls  = 32
	gracePolls = 16
	recently   = clock.Time(300 * time.Microsecond)
)

// polls counts programs' polls, and says whether the device's goroutine leaves the data to them.
type polls struct {
	pollers      pollers
	programPolls atomic.Bool // a program polls; the goroutine stays away
	movedMuch    atomic.Bool // much was moved since the last poll
	unnoted      uint32      // polls that are not yet in pollers, up to tallied; under the lock
}

// pollers tracks whether programs poll. It needs no lock: if the goroutine queued for the device's
// lock while programs poll, Go would hand the lock over, which stalls them for as long as a thread
// takes to wake.
type pollers struct {
	count  atomic.Uint32 // polls
	parked atomic.Int32  // programs that are parked, and poll again in a moment
	recent atomic.Int64  // time of a recent poll; zero: the program announced that it sleeps
	awake  atomic.Uint32 // polls since then, up to busyPolls
	seen   uint32        // the count at seenAt
	seenAt clock.Time
}

// longPoll is how many polls one counts for that moved a lot of data, and so took as long as many
// empty ones.
const longPoll = busyPolls / 2

// grace returns how long the device's goroutine leaves a program alone before it looks again.
func (l *Lane) grace() time.Duration {
	if l.crowded() {
		return crowdedGrace
	}
	return GracePeriod
}

// polled records polls: one, or the number that a long one counts for.
func (l *Lane) polled(n uint32) {
	if !l.polls.pollers.wake(1) {
		return
	}
	if l.polls.pollers.count.Add(n)%longPoll < n {
		l.polls.pollers.recent.Store(int64(l.Now()))
	}
}

// Polls returns how many polls there were so far.
func (l *Lane) Polls() uint32 { return l.polls.pollers.count.Load() }

// MovedMuch records that much was moved since the last poll.
func (l *Lane) MovedMuch() { l.polls.movedMuch.Store(true) }

// at records when a program polled, if that is known: zero if not. Polls themselves read the clock for one of
// longPoll, and where each poll finds much these are more than recently apart.
func (p *pollers) at(now clock.Time) {
	if p.asleep() || p.awake.Load() < busyPolls {
		return
	}
	if int64(now) > p.recent.Load() {
		p.recent.Store(int64(now))
	}
}

// polledRarely records a poll of a program that moved so much since its previous poll that it
// cannot poll often. It is expected to poll again within a grace period: with the device's goroutine there
// would be three threads for the data of two.
func (l *Lane) polledRarely() {
	if !l.polls.pollers.wake(1) {
		return
	}
	l.polls.pollers.count.Add(busyPolls)
	l.polls.pollers.recent.Store(int64(l.Now() + clock.Time(GracePeriod)))
}

// busy reports whether a program has polled a lot recently. The device's goroutine calls it.
func (p *pollers) busy(now clock.Time) bool {
	n := p.count.Load()
	if p.anyParked() {
		return true
	}
	if n-p.seen >= gracePolls && now-clock.Time(p.recent.Load()) < recently {
		p.seen, p.seenAt = n, now
		return true
	}
	if now-p.seenAt > recently { // too few in that time
		p.seen, p.seenAt = n, now
	}
	return false
}

// anyParked reports whether a program is parked, and none has announced since that it sleeps.
func (p *pollers) anyParked() bool { return p.parked.Load() > 0 && !p.asleep() }

// sleep records that the program is going to sleep. It polls once more before it does, whatever
// that moves: only many polls count as a program that is awake again.
func (p *pollers) sleep() {
	p.awake.Store(0)
	p.recent.Store(0)
}

// wake records polls, and reports whether the program is awake.
func (p *pollers) wake(n uint32) bool {
	return p.awoken() || p.awake.Add(n) >= busyPolls
}

// awoken reports whether a program has polled often enough, since one announced that it sleeps, to be polling.
func (p *pollers) awoken() bool { return p.awake.Load() >= busyPolls }

// first reports whether the program has polled once at most since it announced that it sleeps.
func (p *pollers) first() bool { return p.awake.Load() <= 1 }

// asleep reports whether the program has announced that it sleeps.
func (p *pollers) asleep() bool { return p.recent.Load() == 0 }

// sleepsNext reports whether a program whose poll finds no completion probably sleeps next: then its sleep looks at the
// network. It has polled once since it last announced a sleep, or slept, and polls do not pay before it sleeps. Such a
// program polls once after it has answered a message, and again after it has requested an event.
func (l *Lane) sleepsNext() bool {
	return !l.alone && l.pollOwner.sleeps.Load() && l.polls.pollers.first()
}
