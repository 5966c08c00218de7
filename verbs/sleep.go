// SPDX-License-Identifier: Apache-2.0

package verbs

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// sleeping is the state with which one goroutine sleeps.
type sleeping struct {
	drv   sleeper // nil: the driver moves the data
	awake func() bool
	armed func() int
	spin  time.Duration // how long to poll at most; 0: not at all

	busy atomic.Bool // a goroutine sleeps
	mu   sync.Mutex
	ctx  context.Context // of the last wait
	stop func() bool     // ends the wake-up by ctx
}

// init has waits sleep in a driver until ready returns true, and poll for spin before, unless that is
// negative or the driver's programs sleep at once. armed is that of [sleeper].
func (s *sleeping) init(drv sleeper, spin time.Duration, ready func() bool, armed func() int) {
	s.drv, s.armed = drv, armed
	if !drv.SleepsAtOnce() {
		s.spin = max(0, spin)
	}
	s.awake = func() bool { return ready() || s.ctx.Err() != nil }
}

// until sleeps until there is something, or ctx ends. It returns false if it did not: the driver moves
// the data, or another goroutine of the program. Nor does it with a context that has ended.
func (s *sleeping) until(ctx context.Context) bool {
	if s.drv == nil || ctx.Err() != nil || s.busy.Swap(true) {
		return false
	}
	defer s.busy.Store(false)
	s.watchContext(ctx)
	return s.drv.Sleep(s.awake, s.armed, s.spin)
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

// end ends the sleep. The function that was given to init then reports that it has ended.
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
