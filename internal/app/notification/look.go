// SPDX-License-Identifier: Apache-2.0

package notification

import (
	"context"
	"errors"
	"fmt"
	"time"
)

const (
	// LookTime is how long looks are timed together, at least.
	LookTime = time.Millisecond
	// lookBatches is how often.
	lookBatches = 100
	// A batch that had a smaller share of a processor than aloneShare was disturbed: others were given
	// the processor, or the device slept between polls to leave it to them. Looks are timed until
	// lookBatches batches were not, for lookPatience at most.
	aloneShare   = 0.9
	lookPatience = time.Second
	// fewBatches are too few for percentiles: then those that were disturbed count too.
	fewBatches = 20
	// busyTime is how long the processors are observed while nothing arrives.
	busyTime = 100 * time.Millisecond
)

// spent measures what calls of a function cost.
type spent struct {
	look      func() error
	calls     int       // in a batch, which takes LookTime or somewhat longer
	alone     []float64 // nanoseconds of a call, by batch
	disturbed []float64 // the same, of batches that were disturbed
}

// batch calls the function s.calls times. It returns how long all together took, and what of
// processor time; that is the same where the system does not report it.
func (s *spent) batch() (elapsed, used time.Duration, err error) {
	start := time.Now()
	before, reported := processorTime()
	for range s.calls {
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

// sample times one batch.
func (s *spent) sample() error {
	elapsed, used, err := s.batch()
	if err != nil {
		return err
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

// calibrate finds out how many calls take LookTime.
func (s *spent) calibrate() error {
	for s.calls = 1; ; s.calls *= 2 {
		if elapsed, _, err := s.batch(); err != nil || elapsed >= LookTime {
			return err
		}
	}
}

var errFound = errors.New("the target found a WRITE where there was none")

// measureLooks returns the costs of looks that find nothing: polling bytes, of that the bytes alone,
// and polling the completion queue. They are measured in turns, so that what else the machine does
// affects all of them.
func (t *target) measureLooks(ctx context.Context) (bytes, scan, immediate *Look, err error) {
	nothing := func(found bool, err error) error {
		if found && err == nil {
			err = errFound
		}
		return err
	}
	all := []*spent{
		{look: func() error { return nothing(t.lookBytes()) }},
		{look: func() error { t.mr.Do(t.scan); return nothing(t.found >= 0, nil) }},
		{look: func() error { return nothing(t.lookImmediate()) }},
	}
	t.catchUp()
	for _, s := range all {
		if err := s.calibrate(); err != nil {
			return nil, nil, nil, err
		}
	}
	for start := time.Now(); time.Since(start) < lookPatience; {
		enough := true
		for _, s := range all {
			if err := s.sample(); err != nil {
				return nil, nil, nil, err
			}
			enough = enough && len(s.alone) >= lookBatches
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

// measureBusy returns how many processors the process keeps busy while its target waits in a way and
// nothing arrives; nil where the system does not report that.
func (t *target) measureBusy(ctx context.Context, w Way) (*float64, error) {
	if _, ok := processorTime(); !ok {
		return nil, nil
	}
	t.catchUp()
	wait, cancel := context.WithTimeoutCause(ctx, busyTime, errOver)
	defer cancel()
	var start time.Time
	var before time.Duration
	err := t.await(wait, w, func() {
		start = time.Now()
		before, _ = processorTime()
	})
	after, _ := processorTime()
	busy := float64(after-before) / float64(time.Since(start))
	switch {
	case errors.Is(err, errOver):
		return &busy, nil
	case err == nil:
		err = errFound
	}
	return nil, fmt.Errorf("waiting for nothing: %w", err)
}
