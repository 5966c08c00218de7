// SPDX-License-Identifier: Apache-2.0

package verbs

import (
	"runtime"
	"runtime/metrics"
	"sync"
	"sync/atomic"
)

// Polls in a row that find nothing yield after this many, after twice as many, and so on, and
// finally after every lastYield of them.
const (
	firstYield = 32
	lastYield  = 1024 // a power of two
)

// yielder yields to other goroutines between polls that find nothing, if each of the program's
// processors is busy. The peer may be a goroutine of this program. Where as many goroutines poll as
// there are processors, it would wait until Go preempts one of them, after 10 ms each. With a
// processor to spare the yielder does nothing: Go would wake a thread for the goroutine that
// yields, and as often as not continue there.
type yielder struct {
	every uint32        // 1: after each; 0: never
	empty atomic.Uint32 // polls in a row that found nothing
}

func yieldsEvery(locked bool) uint32 {
	switch {
	case locked:
		return 0
	case runtime.GOMAXPROCS(0) == 1:
		return 1
	}
	return lastYield
}

// found records a poll that found something.
func (y *yielder) found() {
	if y.empty.Load() != 0 {
		y.empty.Store(0)
	}
}

// foundNothing records a poll that found nothing.
func (y *yielder) foundNothing() {
	if y.every == 0 {
		return
	}
	if n := y.empty.Add(1); (n%y.every == 0 || n >= firstYield && n&(n-1) == 0) && processors.busy() {
		runtime.Gosched()
	}
}

// processors counts goroutines that run or are runnable.
var processors = scheduler{sample: [2]metrics.Sample{
	{Name: "/sched/goroutines/running:goroutines"}, {Name: "/sched/goroutines/runnable:goroutines"},
}}

type scheduler struct {
	mu     sync.Mutex
	sample [2]metrics.Sample // read again and again: the caller's own would be allocated
}

// busy reports whether each processor that Go may use runs a goroutine, or one is runnable. It
// takes about 150 ns.
func (s *scheduler) busy() bool {
	if !s.mu.TryLock() {
		return true // others find nothing either
	}
	defer s.mu.Unlock()
	metrics.Read(s.sample[:])
	running, runnable := s.sample[0].Value.Uint64(), s.sample[1].Value.Uint64()
	return runnable > 0 || running >= uint64(runtime.GOMAXPROCS(0))
}
