// SPDX-License-Identifier: Apache-2.0

package verbs

import (
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// emptyCQ is the driver of a queue that never has a completion, or always.
type emptyCQ struct {
	cqDriver
	n int
}

func (d *emptyCQ) Poll([]WC) int { return d.n }

// ranMeanwhile reports whether another goroutine ran during some polls that found nothing.
func ranMeanwhile(cq *CQ, drv *emptyCQ, polls int) bool {
	var ran atomic.Bool
	done := make(chan struct{})
	go func() { ran.Store(true); close(done) }()
	for range polls {
		cq.Poll(nil)
	}
	got := ran.Load()
	<-done
	drv.n = 1 // a completion starts the count again
	cq.Poll(nil)
	drv.n = 0
	return got
}

// TestPollYields has a goroutine poll on the one processor that Go may use. It yields twice where
// another shall run, as Go may choose the same one again once in a while; and Go may take the
// processor away from one that does not yield, if the system has held it up. So one try of many
// has to go as it should.
func TestPollYields(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	const tries = 50
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
			cq := &CQ{dev: &Device{}, drv: drv, yields: yielder{every: test.every}}
			for range 3 {
				got := !test.want
				for try := 0; got != test.want && try < tries; try++ {
					got = ranMeanwhile(cq, drv, test.polls)
				}
				if got != test.want {
					t.Errorf("another goroutine ran: %v", got)
				}
			}
		})
	}
}

// TestProcessorsBusy holds that polls yield where each processor is taken, and do not where one is
// free.
func TestProcessorsBusy(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(3))
	var stop atomic.Bool
	var spinning sync.WaitGroup
	defer spinning.Wait()
	defer stop.Store(true)
	becomes := func(want bool) {
		t.Helper()
		for until := time.Now().Add(time.Minute); processors.busy() != want; {
			if time.Now().After(until) {
				t.Fatalf("all processors busy: %v for a minute", !want)
			}
			time.Sleep(time.Millisecond)
		}
	}
	becomes(false) // but for the runtime's own goroutines, only this one runs
	for range 2 {
		spinning.Go(func() {
			for !stop.Load() {
			}
		})
	}
	becomes(true)
}
