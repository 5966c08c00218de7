// SPDX-License-Identifier: Apache-2.0

package live

import (
	"time"

	"github.com/ramjet-rdma/ramjet/verbs"
)

// Sample is what happened between two snapshots, and the state at the second. For a device it is the
// sum over its queue pairs, for a process over its devices; RTT and RTTVar are then those of the longest round
// trip among the queue pairs that moved something, and Window is 0.
type Sample struct {
	At     time.Time      // of the second snapshot
	Over   time.Duration  // since the first; 0: there was none, and nothing is counted
	Counts verbs.QPCounts // how much each counter grew

	SendQueue int // work requests that have not completed
	RecvQueue int // receives that are posted; a shared queue's count for each queue pair
	InFlight  int // bytes that are not acknowledged
	Window    int // bytes that may be in flight
	RTT       time.Duration
	RTTVar    time.Duration
	Waiting   int // completions that have not been polled; of a queue pair, in its completion queues
}

// PerSecond returns the rate of something that happened n times in the sample. It is 0 if Over is.
func (s *Sample) PerSecond(n uint64) float64 {
	if s.Over <= 0 {
		return 0
	}
	return float64(n) / s.Over.Seconds()
}

// Messages returns the messages of both directions.
func (s *Sample) Messages() uint64 { return s.Counts.SentMessages + s.Counts.RecvMessages }

// Bytes returns the payload of both directions.
func (s *Sample) Bytes() uint64 { return s.Counts.SentBytes + s.Counts.RecvBytes }

// RNRs returns the RNR NAKs of both directions.
func (s *Sample) RNRs() uint64 { return s.Counts.RNRs + s.Counts.SentRNRs }

// add adds a part to a sum.
func (s *Sample) add(part *Sample) {
	into, from := counters(&s.Counts), counters(&part.Counts)
	for i := range into {
		*into[i] += *from[i]
	}
	s.SendQueue += part.SendQueue
	s.RecvQueue += part.RecvQueue
	s.InFlight += part.InFlight
	if part.Counts != (verbs.QPCounts{}) && part.RTT > s.RTT {
		s.RTT, s.RTTVar = part.RTT, part.RTTVar
	}
}

// counters returns all counters, to compare or add them one by one.
func counters(c *verbs.QPCounts) [15]*uint64 {
	return [...]*uint64{&c.SentMessages, &c.SentBytes, &c.SentPackets, &c.RecvMessages, &c.RecvBytes, &c.RecvPackets,
		&c.Timeouts, &c.SequenceErrors, &c.LostResponses, &c.RNRs, &c.Retransmitted, &c.Duplicates, &c.OutOfSequence, &c.SentRNRs,
		&c.LateAcks}
}

// growth returns by how much counters grew; false: one is less than before.
func growth(from, to *verbs.QPCounts) (by verbs.QPCounts, ok bool) {
	a, b, d := counters(from), counters(to), counters(&by)
	for i := range a {
		if *b[i] < *a[i] {
			return verbs.QPCounts{}, false
		}
		*d[i] = *b[i] - *a[i]
	}
	return by, true
}

// history is a ring of samples.
type history struct {
	ring []Sample // as many as are kept once it is full
	next int      // where the next one goes
}

func (h *history) add(s Sample, keep int) {
	if len(h.ring) < keep {
		h.ring = append(h.ring, s)
		return
	}
	h.ring[h.next] = s
	h.next = (h.next + 1) % len(h.ring)
}

// last returns up to n samples, the oldest first.
func (h *history) last(n int) []Sample {
	n = min(max(n, 0), len(h.ring))
	list := make([]Sample, 0, n)
	for i := len(h.ring) - n; i < len(h.ring); i++ {
		list = append(list, h.ring[(h.next+i)%len(h.ring)])
	}
	return list
}
