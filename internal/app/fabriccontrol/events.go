// SPDX-License-Identifier: Apache-2.0

package fabriccontrol

import (
	"sync"
	"time"

	"github.com/ramjet-rdma/ramjet/infiniband"
	"github.com/ramjet-rdma/ramjet/internal/engine/sm"
)

// trapGap is how long repetitions of a trap are not reported.
const trapGap = 10 * time.Second

// Events writes the events of the subnet manager as lines. A fault is reported once, and not again by
// every sweep that finds it.
type Events struct {
	write func(line string)

	mu     sync.Mutex
	now    map[infiniband.ManagerEvent]bool // problems of the sweep under way
	before map[infiniband.ManagerEvent]bool // of the one before
	begun  bool
	told   bool // something, since the last complete sweep
	traps  map[infiniband.ManagerEvent]time.Time
}

// NewEvents returns one that gives its lines to write, which may be called by several goroutines in turn.
func NewEvents(write func(line string)) *Events {
	return &Events{write: write, now: make(map[infiniband.ManagerEvent]bool), traps: make(map[infiniband.ManagerEvent]time.Time)}
}

// Handle takes an event.
func (l *Events) Handle(e infiniband.ManagerEvent) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.isNews(e) {
		return
	}
	l.told = e.Kind != sm.SweepDone && e.Kind != sm.SweepFailed
	l.write("subnet manager: " + e.String())
}

// isNews reports whether an event was not reported before.
func (l *Events) isNews(e infiniband.ManagerEvent) bool {
	switch {
	case e.Kind == sm.BecameMaster && !l.begun:
		l.begun = true // as was to be expected
		return false
	case e.Kind == sm.SweepDone:
		l.begun = true
		mended := 0
		for p := range l.before {
			if !l.now[p] && p.Kind != sm.SweepFailed {
				mended++
			}
		}
		l.before, l.now = l.now, make(map[infiniband.ManagerEvent]bool)
		return l.told || mended > 0
	case e.Kind == sm.TrapReceived:
		if time.Since(l.traps[e]) < trapGap {
			return false
		}
		if len(l.traps) > 1000 {
			clear(l.traps)
		}
		l.traps[e] = time.Now()
	case e.Problem():
		if l.now[e] {
			return false
		}
		l.now[e] = true
		return !l.before[e]
	}
	return true
}
