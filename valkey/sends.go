// SPDX-License-Identifier: Apache-2.0

package valkey

// sends keeps count of the messages in flight and of the send ring, from which data goes. Messages
// complete in order. Positions in the ring are counted through.
type sends struct {
	size  int      // bytes of the ring
	limit int      // messages with data in flight
	next  uint64   // number of the next message
	done  uint64   // all before it have completed
	head  uint64   // where the next data goes
	tail  uint64   // the bytes before it have been sent
	ends  []uint64 // head behind each message in flight, by its number
	mute  int      // messages since the last one that completes with a completion
}

func newSends(size, limit int) sends {
	return sends{size: size, limit: limit, ends: make([]uint64, limit+spareSends)}
}

// room returns where in the ring there is room for data of one message, and how much.
func (s *sends) room() (off, n int) {
	if !s.mayPost() {
		return 0, 0
	}
	off = int(s.head % uint64(s.size))
	return off, min(s.size-int(s.head-s.tail), s.size-off)
}

// mayPost reports whether a message with data can be posted.
func (s *sends) mayPost() bool { return int(s.next-s.done) < s.limit }

// crowded reports whether many messages are in flight.
func (s *sends) crowded() bool { return int(s.next-s.done) > s.limit/4 }

// mayControl reports whether a control message can be posted. There is room for some when there is
// none for data.
func (s *sends) mayControl() bool { return int(s.next-s.done) < len(s.ends) }

// muted is how many messages in a row complete without a completion.
const muted = 8

// post takes note of a message with n bytes of the ring, and returns its number and whether it has to
// be signaled: completions make room.
func (s *sends) post(n int, control bool) (id uint64, signaled bool) {
	id = s.next
	s.next++
	s.head += uint64(n)
	s.ends[id%uint64(len(s.ends))] = s.head
	if s.mute++; n > 0 || control || s.mute >= muted {
		s.mute = 0
		signaled = true
	}
	return id, signaled
}

// complete takes note that a message has completed, and all before it.
func (s *sends) complete(id uint64) {
	s.done = id + 1
	s.tail = s.ends[id%uint64(len(s.ends))]
}

// idle reports whether everything has completed that completes with a completion.
func (s *sends) idle() bool { return int(s.next-s.done) == s.mute }
