// SPDX-License-Identifier: Apache-2.0

package verbs

import (
	"runtime"
	"sync/atomic"
	"testing"
)

// emptyCQ is the driver of a queue that never has a completion, or always.
type emptyCQ struct {
	CQDriver
	n int
}

func (d *emptyCQ) Poll([]WC) int { return d.n }

// TestPollYields has a goroutine poll on the one processor that Go may use. It yields twice where
// another shall run, as Go may choose the same one again once in a while.
func TestPollYields(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	drv := &emptyCQ{}
	for _, test := range []struct {
		name  string
		every uint32
		polls int
		want  bool
	}{
		{"one processor", yieldsEvery(false), 2, true},
		{"several, early", lastYield, firstYield - 1, false},
		{"several", lastYield, 2 * firstYield, true},
		{"locked", yieldsEvery(true), 2 * lastYield, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			cq := &CQ{drv: drv, yields: yielder{every: test.every}}
			for range 3 { // what was found starts the count again
				var ran atomic.Bool
				done := make(chan struct{})
				go func() { ran.Store(true); close(done) }()
				for range test.polls {
					cq.Poll(nil)
				}
				if got := ran.Load(); got != test.want {
					t.Errorf("another goroutine ran: %v", got)
				}
				<-done
				drv.n = 1
				cq.Poll(nil)
				drv.n = 0
			}
		})
	}
}
