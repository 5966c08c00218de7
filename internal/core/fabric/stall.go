// SPDX-License-Identifier: Apache-2.0

package fabric

// A driver that receives none of its packets blocks the senders to its adapter, and with them the other programs
// there and in time the whole fabric. A busy driver may do that for a moment. One that has received nothing for
// a second, such as that of a stopped process, has stalled: its packets are dropped until it receives again.

// stallState counts for how long an attachment has received nothing.
type stallState struct {
	checks  uint8 // in a row that found packets in the queue, without a Receive in between
	stalled bool  // packets are dropped
}

// While packets wait, an attachment is checked every stallInterval nanoseconds; maxStallChecks in a row make it
// stalled. Checks are counted, not time, so a pause of the fabric's own process counts as one.
const (
	stallInterval  = 250_000_000
	maxStallChecks = 5
)

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
	for _, m := range f.members {
		for _, s := range m.attachments {
			if s == nil || s.queue.Len() == 0 {
				continue
			}
			if s.checks++; s.checks < maxStallChecks {
				f.stallCheck = now + stallInterval
				continue
			}
			s.stalled = true
			m.dropped += uint64(s.queue.Len())
			s.dropQueue()
			s.ready.Store(true) // so that its driver calls Receive when it runs again, which ends the stall
			f.wake()
		}
	}
}

// dropQueue releases the packets in the queue.
func (s *Attachment) dropQueue() {
	for s.queue.Len() > 0 {
		s.f.net.Release(s.queue.Front().Packet)
		s.queue.PopFront()
	}
}
