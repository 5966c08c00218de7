// SPDX-License-Identifier: Apache-2.0

package notification

import (
	"context"
	"errors"
	"fmt"
	"time"
)

const (
	// LookTime is how long looks are timed together, at least. It is short enough for looks at bytes alone
	// to be no pause between polls.
	LookTime = 250 * time.Microsecond
	// Software devices sleep after more polls in a row that find nothing than rowLooks
	// (docs/decisions/0021-waiting.md). A pause of rowPause ends the row.
	rowLooks = 32
	rowPause = 100 * time.Microsecond
	// lookBatches is how often.
	lookBatches = 100
	// A batch that had a smaller share of a processor than aloneShare was disturbed: others were given
	// the processor, or the device slept between polls to leave it to them. Looks are timed until
	// lookBatches batches were not, or patience ends.
	aloneShare = 0.9
	// fewBatches are too few for percentiles: then disturbed batches count, too.
	fewBatches = 20
	// busyTime is how long the processors are observed while nothing arrives.
	busyTime = 100 * time.Millisecond
)

// spent measures the cost of calls of a function.
type spent struct {
	look      func() error
	polls     bool      // it polls the device
	calls     int       // in a batch, which takes at least LookTime and, undisturbed, up to twice that
	alone     []float64 // nanoseconds of a call, by batch
	disturbed []float64 // the same, of batches that were disturbed
}

// batch calls the function s.calls times. It returns how long all together took, and their
// processor time, which is the same if the system does not report it.
func (s *spent) batch() (elapsed, used time.Duration, err error) {
	if !s.polls {
		return s.row(s.calls)
	}
	for left := s.calls; left > 0; left -= rowLooks {
		for pause := time.Now(); time.Since(pause) < rowPause; {
		}
		e, u, err := s.row(min(left, rowLooks))
		if err != nil {
			return 0, 0, err
		}
		elapsed += e
		used += u
	}
	return elapsed, used, nil
}

// row is a batch of calls without a pause.
func (s *spent) row(calls int) (elapsed, used time.Duration, err error) {
	start := time.Now()
	before, reported := processorTime()
	for range calls {
		if err := s.look(); err != nil {
			return 0, 0, err
		}
	}
	after, _ := processorTime()
	if elapsed = time.Since(start); !reported {
		return elapsed, elapsed, nil
	}
	return elapsed, after - before, nil
}

// sample times one batch. If it was too short, the next ones are longer.
func (s *spent) sample() error {
	elapsed, used, err := s.batch()
	if err != nil {
		return err
	}
	if elapsed < LookTime {
		s.calls *= 2
		return nil
	}
	list := &s.disturbed
	if float64(used) >= aloneShare*float64(elapsed) {
		list = &s.alone
	}
	*list = append(*list, float64(used)/float64(s.calls))
	return nil
}

// result returns the percentiles.
func (s *spent) result() *Look {
	if len(s.alone) < fewBatches {
		l := lookOf(append(s.alone, s.disturbed...))
		l.Disturbed = true
		return l
	}
	return lookOf(s.alone)
}

var errFound = errors.New("the target found a WRITE where there was none")

// measureLooks returns the costs of looks that find nothing: polling bytes, of that the bytes alone,
// and polling the completion queue. They are measured in turns, so that other work of the machine
// affects all of them.
func (t *target) measureLooks(ctx context.Context, c *Config) (bytes, scan, immediate *Look, err error) {
	nothing := func(found bool, err error) error {
		if found && err == nil {
			err = errFound
		}
		return err
	}
	all := []*spent{
		{calls: 1, polls: true, look: func() error { return nothing(t.lookBytes()) }},
		{calls: 1, look: func() error { t.mr.Do(t.scan); return nothing(t.found >= 0, nil) }},
		{calls: 1, polls: true, look: func() error { return nothing(t.lookImmediate()) }},
	}
	if _, err := t.measureBusy(ctx, Immediate, c.settle, 0); err != nil {
		return nil, nil, nil, err
	}
	for start, some := time.Now(), false; !some || time.Since(start) < c.patience; {
		enough := true
		some = true
		for _, s := range all {
			if err := s.sample(); err != nil {
				return nil, nil, nil, err
			}
			enough = enough && len(s.alone) >= lookBatches
			some = some && len(s.alone)+len(s.disturbed) > 0
		}
		if ctx.Err() != nil {
			return nil, nil, nil, context.Cause(ctx)
		}
		if enough {
			break
		}
	}
	return all[0].result(), all[1].result(), all[2].result(), nil
}

// measureBusy has the target wait in a way while nothing arrives, for two times. It returns how many
// processors the process kept busy during the second; nil where the system does not report that.
func (t *target) measureBusy(ctx context.Context, w Way, settle, observe time.Duration) (*float64, error) {
	t.catchUp()
	if err := t.awaitNothing(ctx, w, settle, func() {}); err != nil || observe == 0 {
		return nil, err
	}
	var start time.Time
	var before time.Duration
	err := t.awaitNothing(ctx, w, observe, func() {
		start = time.Now()
		before, _ = processorTime()
	})
	after, reported := processorTime()
	if err != nil || !reported {
		return nil, err
	}
	busy := float64(after-before) / float64(time.Since(start))
	return &busy, nil
}

// awaitNothing waits in a way for a time. A WRITE is an error.
func (t *target) awaitNothing(ctx context.Context, w Way, d time.Duration, ready func()) error {
	wait, cancel := context.WithTimeoutCause(ctx, d, errOver)
	defer cancel()
	switch err := t.await(wait, w, ready); {
	case errors.Is(err, errOver):
		return nil
	case err == nil:
		return errFound
	default:
		return fmt.Errorf("waiting for nothing: %w", err)
	}
}
