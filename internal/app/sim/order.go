// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/ramjet-rdma/ramjet/verbs"
)

// order sorts the flows by their start, behind them the flows that begin after others, and notes which flows wait for
// which.
func (s *Sim) order() error {
	at := make([]int, len(s.flows)) // the index that the flow in each place had
	for i := range at {
		at[i] = i
	}
	slices.SortStableFunc(at, func(a, b int) int {
		x, y := &s.flows[a], &s.flows[b]
		return cmp.Or(cmp.Compare(min(len(x.After), 1), min(len(y.After), 1)), cmp.Compare(x.Start, y.Start))
	})
	old := slices.Clone(s.flows)
	place := make([]int32, len(at)) // that each flow has now
	for i, was := range at {
		s.flows[i], place[was] = old[was], int32(i)
		s.flows[i].index = int32(i)
	}
	for i := range s.flows {
		f := &s.flows[i]
		if len(f.After) == 0 {
			s.first++
			continue
		}
		if s.next == nil {
			s.next, s.waits = make([][]int32, len(s.flows)), make([]int32, len(s.flows))
		}
		s.waits[i] = int32(len(f.After))
		for _, was := range f.After {
			if was < 0 || int(was) >= at[i] {
				return fmt.Errorf("flow %d begins after flow %d: that has to be one before it", at[i], was)
			}
			s.next[place[was]] = append(s.next[place[was]], int32(i))
		}
	}
	return nil
}

// follow begins the flows that have waited for a flow that has ended. They end, too, if that has failed.
func (s *Sim) follow(f *Flow) {
	if s.next == nil {
		return
	}
	for _, i := range s.next[f.index] {
		next := &s.flows[i]
		switch s.waits[i]--; {
		case next.End > 0: // another that it waited for has failed
		case f.Status != verbs.StatusSuccess:
			next.Start, next.End, next.Status = s.now, s.now, verbs.StatusWRFlushError
			s.Ended++
			s.follow(next)
		case s.waits[i] == 0:
			next.Start = max(next.Start, s.now)
			s.at(next.Start, follower{next})
		}
	}
}

// follower begins a flow that has waited for others.
type follower struct{ *Flow }

func (f follower) happen(s *Sim) {
	if err := s.begin(f.Flow); err != nil {
		s.fail(err)
	}
}
