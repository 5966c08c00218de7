// SPDX-License-Identifier: Apache-2.0

package softdev

import (
	"container/heap"
	"slices"

	"github.com/ramjet-rdma/ramjet/internal/ibta"
	"github.com/ramjet-rdma/ramjet/internal/queue"
)

// schedule knows which queue pairs may have something to send, and which have something
// due at what time.
type schedule struct {
	ready      queue.Ring[*qp]
	crowded    []*ibta.Flow // for whose window queue pairs wait
	fromFlow   *qp          // the last one that had waited for a window; it is sent to its end before the next one
	flowsNext  bool         // such a one goes next
	heldAcks   []*qp        // whose acknowledgements wait for the program's answer
	heldPasses int          // that found nothing since the last of them came
	answers    bool         // the program posted while acknowledgements were held
	timers     timers
}

// addReady notes that q may have something to send.
func (s *schedule) addReady(q *qp) {
	if !q.ready {
		q.ready = true
		*s.ready.PushBack() = q
	}
}

// addCrowded notes that queue pairs wait for the window of f.
func (s *schedule) addCrowded(f *ibta.Flow) {
	if !slices.Contains(s.crowded, f) {
		s.crowded = append(s.crowded, f)
	}
}

// nextWaiting takes a queue pair that waited for a window in which there is room now, nil:
// there is none.
func (s *schedule) nextWaiting() *qp {
	for i := 0; i < len(s.crowded); {
		f := s.crowded[i]
		if q := f.Next(); q != nil {
			return q.Owner.(*qp)
		}
		if f.Waiting() {
			i++
			continue
		}
		s.crowded = slices.Delete(s.crowded, i, i+1)
	}
	return nil
}

// nextReady takes the one that has been ready longest, and in turn with these one that waited
// for a window; nil: there is none. While some are always ready, those that wait are not left out.
func (s *schedule) nextReady() *qp {
	if s.ready.Len() == 0 || s.flowsNext && (s.fromFlow == nil || !s.fromFlow.ready) {
		s.flowsNext, s.fromFlow = false, s.nextWaiting()
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

// holdAck notes that q has an acknowledgement to send a little later.
func (s *schedule) holdAck(q *qp) {
	if !q.ackHeld {
		q.ackHeld = true
		s.heldAcks = append(s.heldAcks, q)
	}
}

// releaseAcks lets held acknowledgements go.
func (s *schedule) releaseAcks() {
	for i, q := range s.heldAcks {
		q.ackHeld = false
		s.addReady(q)
		s.heldAcks[i] = nil
	}
	s.heldAcks = s.heldAcks[:0]
	s.heldPasses, s.answers = 0, false
}

// holdsFor returns how many passes that find nothing held acknowledgements wait.
func (s *schedule) holdsFor() int {
	if s.answers {
		return holdPasses
	}
	return briefPasses
}

// acksDue says whether one acknowledgement stands for enough messages by now.
func (s *schedule) acksDue() bool {
	for _, q := range s.heldAcks {
		if q.engine.AckedMessages() >= holdMessages {
			return true
		}
	}
	return false
}

// setTimer keeps q's place in the heap no later than its deadline. A deadline that moved
// back is found out when the old one comes.
func (s *schedule) setTimer(q *qp) {
	due := q.engine.Deadline()
	switch {
	case due == 0 || q.due != 0 && q.due <= due:
	case q.due == 0:
		q.due = due
		heap.Push(&s.timers, q)
	default:
		q.due = due
		heap.Fix(&s.timers, q.index)
	}
}

// nextDue returns when the first timer is due, zero: none.
func (s *schedule) nextDue() ibta.Time {
	if len(s.timers) == 0 {
		return 0
	}
	return s.timers[0].due
}

// popDue takes a queue pair whose time has come, nil: there is none.
func (s *schedule) popDue(now ibta.Time) *qp {
	if len(s.timers) == 0 || s.timers[0].due > now {
		return nil
	}
	q := heap.Pop(&s.timers).(*qp)
	q.due = 0
	return q
}

// unschedule takes q out of everything.
func (s *schedule) unschedule(q *qp) {
	if q.due != 0 {
		heap.Remove(&s.timers, q.index)
		q.due = 0
	}
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

// timers is a heap of queue pairs by due.
type timers []*qp

func (t timers) Len() int           { return len(t) }
func (t timers) Less(i, j int) bool { return t[i].due < t[j].due }
func (t timers) Swap(i, j int) {
	t[i], t[j] = t[j], t[i]
	t[i].index, t[j].index = i, j
}
func (t *timers) Push(x any) {
	q := x.(*qp)
	q.index = len(*t)
	*t = append(*t, q)
}
func (t *timers) Pop() any {
	old := *t
	n := len(old) - 1
	q := old[n]
	old[n] = nil
	*t = old[:n]
	return q
}
