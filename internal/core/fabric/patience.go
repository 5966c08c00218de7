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

// An attachment is looked at every lookInterval while packets wait; after maxLooks in a row it has stalled. As looks
// are counted, and not time, a stop of the fabric's own process counts for one.
const (
	lookInterval = 250_000_000
	maxLooks     = 5
)

// lookLater makes the goroutine look at the attachments.
func (f *Fabric) lookLater() {
	if f.look == 0 {
		f.look = f.now() + lookInterval
	}
}

// lookNow looks at the attachments if that is due.
func (f *Fabric) lookNow() {
	now := f.now()
	if f.look == 0 || f.look > now {
		return
	}
	f.look = 0
	for _, m := range f.members {
		for _, s := range m.attachments {
			if s == nil || s.queue.Len() == 0 {
				continue
			}
			if s.checks++; s.checks < maxLooks {
				f.look = now + lookInterval
				continue
			}
			s.stalled = true
			m.dropped += uint64(s.queue.Len())
			s.empty()
			s.ready.Store(true) // so that it takes when it goes on, which tells that it does
			f.wake()
		}
	}
}

// empty releases what waits in the queue.
func (s *Attachment) empty() {
	for s.queue.Len() > 0 {
		s.f.net.Release(s.queue.Front().Packet)
		s.queue.PopFront()
	}
}
