// SPDX-License-Identifier: Apache-2.0

package fabric

// A driver that takes none of its packets holds whoever sends to the adapter back, and with that the other
// programs at the adapter, and in time others' traffic. A busy driver may; one that has stood still for
// a second, such as that of a stopped process, gets no more packets until it takes again.

// stallState is how long an attachment has taken nothing.
type stallState struct {
	checks  uint8 // in a row that found something in the queue, of which nothing had been taken
	stalled bool  // so many that what comes is dropped
}

// An attachment is looked at every stallInterval while packets wait; after maxStallChecks in a row it has stalled. As looks
// are counted, and not time, a stop of the fabric's own process counts for one.
const (
	stallInterval  = 250_000_000
	maxStallChecks = 5
)

// scheduleStallCheck makes the goroutine look at the attachments.
func (f *Fabric) scheduleStallCheck() {
	if f.stallCheck == 0 {
		f.stallCheck = f.now() + stallInterval
	}
}

// checkStalls looks at the attachments if that is due.
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
			s.ready.Store(true) // so that it takes when it goes on, which tells that it does
			f.wake()
		}
	}
}

// dropQueue releases what waits in the queue.
func (s *Attachment) dropQueue() {
	for s.queue.Len() > 0 {
		s.f.net.Release(s.queue.Front().Packet)
		s.queue.PopFront()
	}
}
