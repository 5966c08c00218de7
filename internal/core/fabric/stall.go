// SPDX-License-Identifier: Apache-2.0

package fabric

import "github.com/ramjet-rdma/ramjet/internal/base/clock"

// A driver that receives none of its packets blocks the senders to its adapter, and with them the other programs
// there and in time the whole fabric. A busy driver may do that for a moment. A driver that has received nothing
// for a second, such as a stopped process's, has stalled: its packets are dropped until it receives again.
//
// Drivers may do that one after the other, so their cost together is bounded, too. While one holds others back, the
// fabric uses up an allowance of checks, which comes back slowly. Without allowance, packets for a driver that has not
// shown that it receives go to a queue of its own, and hold no other back: see maxOwn.

// stallState says how an attachment receives.
type stallState struct {
	untouched bool   // it has received nothing since its queue was empty
	suspect   bool   // it has held others back when there was no allowance, which has not come back yet
	stalled   bool   // packets are dropped
	checks    uint8  // in a row that found the attachment idle, all the time in between
	taken     uint64 // packets that have left the queue
	mark      uint64 // the value of taken without the packets in the queue at the last check
}

// idle reports whether the attachment leaves packets lying: it has not received all that the last check saw.
func (s *stallState) idle() bool { return s.untouched || s.taken < s.mark }

// While packets wait, attachments are checked every stallInterval nanoseconds; maxStallChecks in a row make an idle one
// stalled. Checks are counted, not time, so a pause of the fabric's own process counts as one.
const (
	stallInterval  = 250_000_000
	maxStallChecks = 5
	// stallRefill is how long it takes until the allowance has a further check: in the long run, drivers that do
	// not receive hold others back for a seventh of the time.
	stallRefill = 10 * stallInterval
	// holdsBack is how many bytes in the queues of idle attachments of an adapter hold others back: half a lane's.
	holdsBack = laneBuffer * 64 / 2
)

// stalls is the fabric's allowance of checks that find others held back.
type stalls struct {
	used      uint8
	since     clock.Time // when used was last reduced
	exhausted bool       // all of it was used, and not all of it has come back
}

// allowed reports whether attachments may hold others back. It brings the allowance up to date.
func (l *stalls) allowed(now clock.Time) bool {
	for ; l.used > 0 && now-l.since >= stallRefill; l.used-- {
		l.since += stallRefill
	}
	if l.used == 0 {
		l.since, l.exhausted = now, false
	}
	return !l.exhausted
}

// spend uses up a check.
func (l *stalls) spend() {
	l.used++
	l.exhausted = l.used == maxStallChecks
}

// holdsNobody reports whether a packet for an attachment must not hold others back.
func (s *Attachment) holdsNobody() bool {
	f := s.f
	return f.stalls.exhausted && (s.suspect || s.idle()) && !f.stalls.allowed(f.now())
}

// received records that the driver has received n packets, or has found none.
func (s *Attachment) received(n int) {
	s.taken += uint64(n)
	s.untouched, s.stalled = false, false
	if s.taken >= s.mark {
		s.checks = 0
	}
}

// scheduleStallCheck has checkStalls run after stallInterval.
func (f *Fabric) scheduleStallCheck() {
	if f.stallCheck == 0 {
		f.stallCheck = f.now() + stallInterval
	}
}

// checkStalls marks attachments that have stalled, if a check is due.
func (f *Fabric) checkStalls() {
	now := f.now()
	if f.stallCheck == 0 || f.stallCheck > now {
		return
	}
	f.stallCheck = 0
	allowed, held := f.stalls.allowed(now), false
	for _, m := range f.members {
		held = held || m.idleBytes() >= holdsBack
	}
	if held && allowed {
		f.stalls.spend()
	}
	for _, m := range f.members {
		atOnce := f.stalls.exhausted && m.idleBytes() >= holdsBack
		for _, s := range m.attachments {
			if s != nil {
				s.check(atOnce)
			}
		}
	}
}

// idleBytes returns how many bytes of the adapter's buffers attachments hold that were idle since the last check.
func (m *member) idleBytes() (n int) {
	for _, s := range m.attachments {
		if s != nil && s.checks > 0 && s.idle() {
			n += s.held
		}
	}
	return n
}

// vacate makes the packets in the queue hold no other back. None is lost: the driver may only be late.
func (s *Attachment) vacate() {
	s.f.wake() // its senders may go on
	for i := range s.queue.Len() {
		if a := s.queue.At(i); !a.own {
			s.f.net.Vacate(a.Packet)
			a.own = true
			s.held -= len(a.Packet.Bytes())
			s.own += len(a.Packet.Bytes()) + ownOverhead
		}
	}
}

// check looks whether an attachment has received since the last check. With atOnce it holds no other back any more if
// it was idle since then.
func (s *Attachment) check(atOnce bool) {
	idle := s.idle() && s.queue.Len() > 0
	s.mark = s.taken + uint64(s.queue.Len())
	s.suspect = s.suspect && s.f.stalls.exhausted
	if s.queue.Len() > 0 {
		s.f.scheduleStallCheck()
	}
	if !idle {
		s.checks = 0
		return
	}
	if atOnce && s.checks > 0 {
		s.suspect = true
		s.vacate()
	}
	if s.checks++; s.checks < maxStallChecks {
		return
	}
	s.checks, s.stalled = 0, true
	s.m.dropped += uint64(s.queue.Len())
	s.dropQueue()
	s.setReady() // so that its driver calls Receive when it runs again, which ends the stall
	s.f.wake()
}

// dropQueue releases the packets in the queue.
func (s *Attachment) dropQueue() {
	for s.queue.Len() > 0 {
		s.f.lose(s.pop().Packet)
		s.taken++
	}
}
