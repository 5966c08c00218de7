// SPDX-License-Identifier: Apache-2.0

package fabriccontrol

import (
	"sync"
	"time"

	"github.com/ramjet-rdma/ramjet/infiniband"
)

// trapInterval is the minimum time between reports of the same trap.
const trapInterval = 10 * time.Second

// Events writes the events of the subnet manager as lines. A fault is written once, not for every sweep that finds it.
type Events struct {
	write func(line string)

	mu       sync.Mutex
	now      map[infiniband.ManagerEvent]bool // faults found in the current sweep
	before   map[infiniband.ManagerEvent]bool // faults found in the last one
	begun    bool
	reported bool // an event was written since the last complete sweep
	traps    map[infiniband.ManagerEvent]time.Time
}

// NewEvents returns Events that call write with each line, one call at a time, from any goroutine.
func NewEvents(write func(line string)) *Events {
	return &Events{write: write, now: make(map[infiniband.ManagerEvent]bool),
		traps: make(map[infiniband.ManagerEvent]time.Time)}
}

// Handle handles an event.
func (l *Events) Handle(e infiniband.ManagerEvent) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.shouldReport(e) {
		return
	}
	l.reported = e.Kind != infiniband.EventSweepDone && e.Kind != infiniband.EventSweepFailed
	l.write("subnet manager: " + e.String())
}

// shouldReport reports whether an event is new.
func (l *Events) shouldReport(e infiniband.ManagerEvent) bool {
	switch {
	case e.Kind == infiniband.EventBecameMaster && !l.begun:
		l.begun = true // as expected at the start
		return false
	case e.Kind == infiniband.EventSweepDone:
		l.begun = true
		mended := 0
		for p := range l.before {
			if !l.now[p] && p.Kind != infiniband.EventSweepFailed {
				mended++
			}
		}
		l.before, l.now = l.now, make(map[infiniband.ManagerEvent]bool)
		return l.reported || mended > 0
	case e.Kind == infiniband.EventTrapReceived:
		if time.Since(l.traps[e]) < trapInterval {
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
