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
	// busyTime is how long the processors are observed while nothing arrives.
	busyTime = 100 * time.Millisecond
)

// spent measures what calls of a function cost.
type spent struct {
	look  func() error
	calls int       // in a batch, which takes LookTime or somewhat longer
	means []float64 // nanoseconds of a call
}

// now returns a time to subtract from another: of the processors if the system reports it.
func now(start time.Time) time.Duration {
	if d, ok := processorTime(); ok {
		return d
	}
	return time.Since(start)
}

// batch calls the function s.calls times. It returns the time of all together.
func (s *spent) batch() (time.Duration, error) {
	start := time.Now()
	before := now(start)
	for range s.calls {
		if err := s.look(); err != nil {
			return 0, err
		}
	}
	return now(start) - before, nil
}

// calibrate finds out how many calls take LookTime.
func (s *spent) calibrate() error {
	for s.calls = 1; ; s.calls *= 2 {
		start := time.Now()
		if _, err := s.batch(); err != nil || time.Since(start) >= LookTime {
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
	for range lookBatches {
		for _, s := range all {
			d, err := s.batch()
			if err != nil {
				return nil, nil, nil, err
			}
			s.means = append(s.means, float64(d)/float64(s.calls))
		}
		if ctx.Err() != nil {
			return nil, nil, nil, context.Cause(ctx)
		}
	}
	return lookOf(all[0].means), lookOf(all[1].means), lookOf(all[2].means), nil
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
