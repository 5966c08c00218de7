// SPDX-License-Identifier: Apache-2.0

package packetdev

import (
	"slices"

	"github.com/ramjet-rdma/ramjet/internal/base/clock"
	"github.com/ramjet-rdma/ramjet/internal/base/queue"
	"github.com/ramjet-rdma/ramjet/internal/engine/ibta"
)

// schedule tracks which queue pairs may have something to send.
type schedule struct {
	ready        queue.Ring[*qp]
	waitingFlows []*ibta.Flow // flows whose window queue pairs wait for
	fromFlow     *qp          // the last one that had waited for a window; it finishes its send before the next one
	flowsNext    bool         // the next one is one of these
	heldAcks     []*qp        // queue pairs whose acknowledgements wait for the program's answer
	heldPasses   int          // empty passes since the last of them was added
	answers      bool         // the program posted while acknowledgements were held
	heldAsleep   bool         // the program has gone to sleep while some were, and no pass was made since
	promptSleeps int          // of the program, before which acknowledgements are sent
}

// addReady records that q may have something to send.
func (s *schedule) addReady(q *qp) {
	if !q.ready {
		q.ready = true
		*s.ready.PushBack() = q
	}
}

// addWaiting records that queue pairs wait for the window of f.
func (s *schedule) addWaiting(f *ibta.Flow) {
	if !slices.Contains(s.waitingFlows, f) {
		s.waitingFlows = append(s.waitingFlows, f)
	}
}

// nextWaiting takes a queue pair that waited for a window that now has room, or returns nil.
func (s *schedule) nextWaiting(now clock.Time) *qp {
	for i := 0; i < len(s.waitingFlows); {
		f := s.waitingFlows[i]
		if q := f.Next(now); q != nil {
			return q.Owner.(*qp)
		}
		if f.Waiting() {
			i++
			continue
		}
		s.waitingFlows = slices.Delete(s.waitingFlows, i, i+1)
	}
	return nil
}

// nextReady takes the queue pair that has been ready longest, alternating with the queue pairs that waited for a
// window, or returns nil. So these are not starved while others are always ready.
func (s *schedule) nextReady(now clock.Time) *qp {
	if s.ready.Len() == 0 || s.flowsNext && (s.fromFlow == nil || !s.fromFlow.ready) {
		s.flowsNext, s.fromFlow = false, s.nextWaiting(now)
		if s.fromFlow != nil || s.ready.Len() == 0 {
			return s.fromFlow
		}
	}
	s.flowsNext = true
	q := *s.ready.Front()
	*s.ready.Front() = nil
	s.ready.PopFront()
	q.ready = false
	return q
}

// holdAck holds back an acknowledgement of q.
func (s *schedule) holdAck(q *qp) {
	if !q.ackHeld {
		q.ackHeld = true
		s.heldAcks = append(s.heldAcks, q)
	}
}

// releaseAcks releases the held acknowledgements.
func (s *schedule) releaseAcks() {
	for i, q := range s.heldAcks {
		q.ackHeld = false
		s.addReady(q)
		s.heldAcks[i] = nil
	}
	s.heldAcks = s.heldAcks[:0]
	s.heldPasses, s.answers = 0, false
}

// holdsFor returns for how many empty passes acknowledgements are held.
func (s *schedule) holdsFor() int {
	if s.answers {
		return holdPasses
	}
	return briefPasses
}

// holdAsleep reports whether acknowledgements stay held during the sleep that the program is about to begin: if it
// answers, and the peer seems not to wait for them.
func (s *schedule) holdAsleep() bool {
	if !s.answers || len(s.heldAcks) == 0 {
		return false
	}
	if s.promptSleeps > 0 {
		s.promptSleeps--
		return false
	}
	s.heldAsleep = true
	return true
}

// sleptForNothing reports, in a pass, whether the program slept before it while acknowledgements were held, and nothing
// has arrived.
func (s *schedule) sleptForNothing(arrived bool) bool {
	idle := s.heldAsleep && !arrived
	if s.heldAsleep = false; idle {
		s.promptSleeps = promptSleeps
	}
	return idle
}

// acksDue reports whether one acknowledgement would cover enough messages by now.
func (s *schedule) acksDue() bool {
	for _, q := range s.heldAcks {
		if q.engine.AckedMessages() >= holdMessages {
			return true
		}
	}
	return false
}

// remove removes q from all lists.
func (s *schedule) remove(q *qp) {
	if q.ready {
		for range s.ready.Len() {
			other := *s.ready.Front()
			s.ready.PopFront()
			if other != q {
				*s.ready.PushBack() = other
			}
		}
		q.ready = false
	}
	if s.fromFlow == q {
		s.fromFlow = nil
	}
	if q.ackHeld {
		s.heldAcks = slices.DeleteFunc(s.heldAcks, func(o *qp) bool { return o == q })
		q.ackHeld = false
	}
}
