// SPDX-License-Identifier: Apache-2.0

package verbs

import (
	"runtime"
	"sync/atomic"
)

// Polls in a row that find nothing let other goroutines run after the first so many, after
// twice as many, and so on, until it is once in lastYield.
const (
	firstYield = 32
	lastYield  = 1024 // a power of two
)

// yielder lets other goroutines run between polls that find nothing. The peer may be one of
// this program, and where as many goroutines poll as there are processors it would wait until
// Go takes one away from them, after 10 ms each. It is done more and more rarely, as Go wakes a
// thread every time a processor looks idle, which the peer may need.
type yielder struct {
	every uint32        // 1: after each; 0: never
	vain  atomic.Uint32 // polls in a row that found nothing
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

// found notes a poll that found something.
func (y *yielder) found() {
	if y.vain.Load() != 0 {
		y.vain.Store(0)
	}
}

// foundNothing notes one that did not.
func (y *yielder) foundNothing() {
	if y.every == 0 {
		return
	}
	if n := y.vain.Add(1); n%y.every == 0 || n >= firstYield && n&(n-1) == 0 {
		runtime.Gosched()
	}
}
