// SPDX-License-Identifier: Apache-2.0

package softdev

import (
	"testing"
	"time"

	"github.com/ramjet-rdma/ramjet/internal/base/clock"
)

// waitScript is waits of a program, and the clock.
type waitScript struct {
	t *testing.T
	adaptiveSpin
	now clock.Time
}

// wait is waits for something that comes, or does not, while they poll.
func (s *waitScript) wait(times int, found bool) (polled int) {
	for range times {
		s.now += clock.Time(10 * time.Microsecond)
		if s.polls(s.now) {
			polled++
			s.polled(s.now, found)
		}
	}
	return polled
}

func (s *waitScript) want(what string, got, want int) {
	s.t.Helper()
	if got != want {
		s.t.Fatalf("%s: %d waits poll, want %d", what, got, want)
	}
}

func newWaitScript(t *testing.T) *waitScript { return &waitScript{t: t, now: clock.Time(time.Second)} }

// TestAdaptiveSpin holds when waits poll.
func TestAdaptiveSpin(t *testing.T) {
	s := newWaitScript(t)
	s.want("each finds something", s.wait(1000, true), 1000)
	s.want("then one finds nothing", s.wait(1, false), 1)
	s.want("which is not enough", s.wait(1000, true), 1000)

	s.want("four in a row find nothing: the others do not poll", s.wait(100, false), 4)
	s.want("nor does any until a probe is due", s.wait(103, true), 0)
	s.want("the probe and those after it find something", s.wait(10, true), 10)
}

// TestAdaptiveSpinProbes holds that waits which find nothing try less and less often, however many there are.
func TestAdaptiveSpinProbes(t *testing.T) {
	s := newWaitScript(t)
	s.wait(10, false)
	var gaps []clock.Time
	for last := s.now; len(gaps) < 8; s.now += clock.Time(10 * time.Microsecond) {
		if s.polls(s.now) {
			gaps = append(gaps, s.now-last)
			last = s.now
			s.polled(s.now, false)
		}
	}
	for i, g := range gaps[1:] {
		if g < gaps[i] && g < lastProbe || g > lastProbe+clock.Time(time.Millisecond) {
			t.Errorf("probe %d comes %v after the one before, and that %v", i+1, time.Duration(g),
				time.Duration(gaps[i]))
		}
	}
}

// TestAdaptiveSpinHalf has every other wait find something while it polls: that pays.
func TestAdaptiveSpinHalf(t *testing.T) {
	s := newWaitScript(t)
	for range 1000 {
		s.want("one that finds nothing", s.wait(1, false), 1)
		s.want("one that finds something", s.wait(1, true), 1)
	}
}
