// SPDX-License-Identifier: Apache-2.0

package fabric

import (
	"bytes"
	"runtime"
	"sync"
	"time"
)

// inBubble reports whether the caller is in a bubble of package testing/synctest, where time passes only while every
// goroutine waits. Only the header of a stack says so.
func inBubble() bool {
	b := make([]byte, 256)
	head, _, _ := bytes.Cut(b[:runtime.Stack(b, false)], []byte("\n"))
	return bytes.Contains(head, []byte("synctest bubble"))
}

// bubble is the environment of a fabric that a program has started in such a bubble.
type bubble struct {
	mu    sync.Mutex
	place uint64 // of the next region
}

const (
	// bubblePause is how long an empty poll takes there.
	bubblePause = 5 * time.Microsecond
	// emptyPolls is how many empty polls at one time make a pause. A single poll may come with a lock of the
	// program held.
	emptyPolls = 16
)

// bubbleWaiter is a Waiter there. Devices that wait at it let time pass: it is a softdev.Virtual.
type bubbleWaiter struct {
	*realWaiter
	bubble *bubble

	mu     sync.Mutex
	polled time.Time // when the last poll was empty
	empty  int       // empty polls at that time
}

func (b *bubble) newWaiter() Waiter {
	return &bubbleWaiter{realWaiter: NewWaiter().(*realWaiter), bubble: b}
}

// Pause lets time pass.
func (w *bubbleWaiter) Pause() { time.Sleep(bubblePause) }

// PollPause lets time pass after many empty polls.
func (w *bubbleWaiter) PollPause() {
	w.mu.Lock()
	if now := time.Now(); !now.Equal(w.polled) {
		w.polled, w.empty = now, 0
	}
	w.empty++
	pause := w.empty >= emptyPolls
	if pause {
		w.empty = 0
	}
	w.mu.Unlock()
	if pause {
		w.Pause()
	}
}

// AllocAddr returns an address for a region: addresses of memory differ from run to run.
func (w *bubbleWaiter) AllocAddr(size int) uint64 {
	const page = 1 << 12
	w.bubble.mu.Lock()
	defer w.bubble.mu.Unlock()
	w.bubble.place += uint64(size+2*page-1) &^ (page - 1)
	return w.bubble.place
}

// RefuseRegion refuses none.
func (w *bubbleWaiter) RefuseRegion() error { return nil }
