// SPDX-License-Identifier: Apache-2.0

package verbs

import (
	"context"
	"sync"
	"sync/atomic"
)

// sleeper is a [Driver] in which a goroutine that waits for completions can sleep by itself: one
// thread is woken then, where the driver's own would wake a second one.
type sleeper interface {
	// Sleeps reports whether goroutines can: elsewhere Sleep always returns false.
	Sleeps() bool
	// SleepsAtOnce reports whether goroutines that wait do so without polling first.
	SleepsAtOnce() bool
	// Sleep moves data until awake returns true, and sleeps while there are none. It returns false at
	// once if somebody else does so.
	Sleep(awake func() bool) bool
	// WakeSleeper has Sleep call awake again.
	WakeSleeper()
}

// emptyChecker is the completion queue of a [sleeper].
type emptyChecker interface{ Empty() bool }

// sleeping is what one goroutine sleeps with.
type sleeping struct {
	drv   sleeper // nil: the driver moves the data
	awake func() bool

	busy atomic.Bool // a goroutine sleeps
	mu   sync.Mutex
	ctx  context.Context // of the last wait
	stop func() bool     // ends what follows ctx
}

// init has waits sleep in a driver until ready returns true.
func (s *sleeping) init(drv sleeper, ready func() bool) {
	s.drv = drv
	s.awake = func() bool { return ready() || s.ctx.Err() != nil }
}

// until sleeps until there is something, or ctx ends. It returns false if it did not: the driver moves
// the data, or another goroutine of the program. Nor does it with a context that has ended; package rnet's
// always says so, and ends each wait with one value of its channel, which nobody else is to take.
func (s *sleeping) until(ctx context.Context) bool {
	if s.drv == nil || ctx.Err() != nil || s.busy.Swap(true) {
		return false
	}
	defer s.busy.Store(false)
	s.watchContext(ctx)
	return s.drv.Sleep(s.awake)
}

// watchContext has the end of ctx end the sleep. Programs wait with one and the same again and again.
func (s *sleeping) watchContext(ctx context.Context) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ctx == ctx {
		return
	}
	if s.stop != nil {
		s.stop()
		s.stop = nil
	}
	if s.ctx = ctx; ctx.Done() != nil {
		s.stop = context.AfterFunc(ctx, s.drv.WakeSleeper)
	}
}

// end ends the sleep, of whose end the function that was given to init knows.
func (s *sleeping) end() {
	if s.drv == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stop != nil {
		s.stop()
		s.stop = nil
	}
	s.drv.WakeSleeper()
}
