// SPDX-License-Identifier: Apache-2.0

package live

import (
	"time"

	"github.com/ramjet-rdma/ramjet/verbs/metric"
)

// Sample holds the events between two snapshots, and the state at the second. For a device it is the
// sum over its queue pairs, for a process over its devices; RTT and RTTVar are then of the longest round
// trip among the queue pairs that moved data, and Window is 0.
type Sample struct {
	At     time.Time       // of the second snapshot
	Over   time.Duration   // since the first; 0: there was none, and nothing is counted
	Counts metric.QPCounts // how much each counter grew

	SendQueue int     // work requests that have not completed
	RecvQueue int     // receives that are posted; a shared queue's count for each queue pair
	InFlight  int     // bytes that are not acknowledged
	Window    int     // bytes that may be in flight
	Rate      int64   // bits per second that congestion control allows; 0: it does not pace
	Alpha     float64 // DCQCN's estimate of congestion
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
	if part.Counts != (metric.QPCounts{}) && part.RTT > s.RTT {
		s.RTT, s.RTTVar = part.RTT, part.RTTVar
	}
}

// counters returns all counters, to compare or add them one by one.
func counters(c *metric.QPCounts) [18]*uint64 {
	return [...]*uint64{&c.SentMessages, &c.SentBytes, &c.SentPackets, &c.RecvMessages, &c.RecvBytes, &c.RecvPackets,
		&c.Timeouts, &c.SequenceErrors, &c.LostResponses, &c.RNRs, &c.Retransmitted, &c.Duplicates, &c.OutOfSequence,
		&c.SentRNRs, &c.LateAcks, &c.Marked, &c.SentCNPs, &c.RecvCNPs}
}

// growth returns by how much counters grew; false: one is less than before.
func growth(from, to *metric.QPCounts) (by metric.QPCounts, ok bool) {
	a, b, d := counters(from), counters(to), counters(&by)
	for i := range a {
		if *b[i] < *a[i] {
			return metric.QPCounts{}, false
		}
		*d[i] = *b[i] - *a[i]
	}
	return by, true
}

// CoarseEvery is the time that samples of the coarse past are of.
const CoarseEvery = 30 * time.Second

// History holds earlier samples: recent samples as they were taken, and for a longer time their sums over at
// least CoarseEvery.
type History struct {
	fine, coarse ring
	sum          Sample // of the samples that are not in coarse yet
}

// Add adds a sample, and forgets all but the last keep samples, recent and coarse.
func (h *History) Add(s Sample, keep int) {
	h.fine.add(s, keep)
	into, from := counters(&h.sum.Counts), counters(&s.Counts)
	for i := range into {
		*into[i] += *from[i]
	}
	s.Counts, s.Over = h.sum.Counts, h.sum.Over+s.Over
	h.sum = s
	if h.sum.Over >= CoarseEvery {
		h.coarse.add(h.sum, keep)
		h.sum = Sample{}
	}
}

// Last returns up to n samples, the oldest first.
func (h *History) Last(n int) []Sample { return h.fine.last(n) }

// Coarse returns up to n samples of CoarseEvery, the oldest first, and the sum since.
func (h *History) Coarse(n int) []Sample {
	list := h.coarse.last(n)
	if h.sum.Over > 0 {
		list = append(list, h.sum)
	}
	return list
}

// Empty reports whether there is nothing.
func (h *History) Empty() bool { return len(h.fine.samples) == 0 }

// ring has as many samples as are kept once it is full.
type ring struct {
	samples []Sample
	next    int // where the next one goes
}

func (r *ring) add(s Sample, keep int) {
	if len(r.samples) < keep {
		r.samples = append(r.samples, s)
		return
	}
	r.samples[r.next] = s
	r.next = (r.next + 1) % len(r.samples)
}

func (r *ring) last(n int) []Sample {
	n = min(max(n, 0), len(r.samples))
	list := make([]Sample, 0, n+1)
	for i := len(r.samples) - n; i < len(r.samples); i++ {
		list = append(list, r.samples[(r.next+i)%len(r.samples)])
	}
	return list
}
