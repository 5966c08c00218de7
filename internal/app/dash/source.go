// SPDX-License-Identifier: Apache-2.0

package dash

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/ramjet-rdma/ramjet/internal/app/live"
	"github.com/ramjet-rdma/ramjet/internal/system/statsocket"
	"github.com/ramjet-rdma/ramjet/verbs"
)

const (
	// freshness is for how long a reading answers further requests.
	freshness = 900 * time.Millisecond
	// keep is how many samples graphs have, of a second or of [live.CoarseEvery], and linger for how long objects that
	// are gone are shown.
	keep   = 120
	linger = 30 * time.Second
	// readTime bounds the reading of all processes.
	readTime = 10 * time.Second
)

// source reads processes when a client asks, and keeps their histories.
type source struct {
	read func(context.Context, int) ([]statsocket.Process, error)

	lock    sync.Mutex
	tracker *live.Tracker
	at      time.Time // of the last reading
	total   live.History
	now     live.Sample // the last of total
}

func newSource(read func(context.Context, int) ([]statsocket.Process, error)) *source {
	return &source{read: read, tracker: live.NewTracker(keep, linger)}
}

// refresh reads processes, unless that was just done. The lock is held.
func (s *source) refresh() error {
	if time.Since(s.at) < freshness {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), readTime) // not the request's: others wait for this, too
	defer cancel()
	found, err := s.read(ctx, 0)
	if err != nil {
		return fmt.Errorf("reading processes: %w", err)
	}
	last := s.at
	s.at = time.Now()
	s.tracker.Update(s.at, found)
	if last.IsZero() {
		return nil
	}
	s.now = s.sum(s.at.Sub(last))
	s.total.Add(s.now, keep)
	return nil
}

// sum adds the figures of all processes. The rates of each process are over its own interval.
func (s *source) sum(over time.Duration) live.Sample {
	all := live.Sample{At: s.at, Over: over}
	for _, p := range s.tracker.Processes() {
		if !p.Gone.IsZero() || p.Err != nil {
			continue
		}
		n := p.Now
		c, d := &all.Counts, &n.Counts
		for _, pair := range []struct{ to, from *uint64 }{
			{&c.SentMessages, &d.SentMessages}, {&c.SentBytes, &d.SentBytes}, {&c.RecvMessages, &d.RecvMessages},
			{&c.RecvBytes, &d.RecvBytes},
			{&c.Timeouts, &d.Timeouts}, {&c.LateAcks, &d.LateAcks}, {&c.SequenceErrors, &d.SequenceErrors},
			{&c.LostResponses, &d.LostResponses}, {&c.RNRs, &d.RNRs},
			{&c.Retransmitted, &d.Retransmitted}, {&c.Duplicates, &d.Duplicates}, {&c.OutOfSequence, &d.OutOfSequence},
			{&c.SentRNRs, &d.SentRNRs},
			{&c.Marked, &d.Marked}, {&c.SentCNPs, &d.SentCNPs}, {&c.RecvCNPs, &d.RecvCNPs},
		} {
			*pair.to += uint64(n.PerSecond(*pair.from)*over.Seconds() + 0.5)
		}
		all.InFlight += n.InFlight
		if n.RTT > all.RTT {
			all.RTT, all.RTTVar = n.RTT, n.RTTVar
		}
	}
	return all
}

// qpKey names a queue pair to its process.
type qpKey struct {
	pid    int
	device string
	qpn    verbs.QPN

	peer                verbs.QPN
	retries, rnrRetries uint8 // how often it sends again; both 0: not known
}

// qp returns the queue pair with an id, if it is there.
func (s *source) qp(id uint64) (qpKey, bool) {
	s.lock.Lock()
	defer s.lock.Unlock()
	q := s.tracker.QP(id)
	if q == nil || !q.Gone.IsZero() {
		return qpKey{}, false
	}
	return qpKey{q.Device.Process.PID, q.Device.Info.Name, q.Info.QPN, q.Info.DestQPN, q.Info.RetryCount,
		q.Info.RNRRetry}, true
}
