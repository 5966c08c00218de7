// SPDX-License-Identifier: Apache-2.0

package softdev

import (
	"runtime"
	"slices"
	"sync/atomic"
	"time"

	"github.com/ramjet-rdma/ramjet/internal/base/lockorder"
)

// Lock takes the locks of all lanes, in their order. The objects, keys and ports that they have in common are changed
// under all of the locks, and looked up under any.
func (d *Device) Lock() {
	for _, l := range d.Lanes {
		l.Mu.Mutex.Lock()
	}
}

// Unlock releases the locks of all lanes, once all have published their counters.
func (d *Device) Unlock() {
	for _, l := range d.Lanes {
		l.Mu.show()
	}
	for _, l := range slices.Backward(d.Lanes) {
		l.Mu.Mutex.Unlock()
	}
}

// joinLanes prepares the lanes of a device that has several. Programs do not park there, nor do threads sleep outside
// of Go: both would do so at one socket.
func (d *Device) joinLanes() {
	for _, l := range d.Lanes {
		l.parker, l.pollWaiter = nil, nil
		l.Mu.several = &laneLock{dev: d}
	}
}

// laneLock is the part of a lane's lock that a device with several lanes needs. While faults are injected the lanes
// work one at a time, so that faults strike in one sequence, and in queue pairs of any lane: a thread that takes the
// lock of one lane takes Device.faultLock, too. With the locks of all lanes held nobody has it.
type laneLock struct {
	dev    *Device
	alone  bool          // the holder has the lock of faults
	access atomic.Uint32 // odd: somebody has the lock of this lane, and may be in the middle of an access to memory
}

// enter follows the taking of a lane's lock.
func (l *laneLock) enter() {
	if l.dev.faulty.Load() != nil {
		l.dev.faultLock.Lock()
		l.alone = true
	}
	l.access.Add(1)
}

// tryEnter is enter that does not wait. It returns false if it would.
func (l *laneLock) tryEnter() bool {
	if l.dev.faulty.Load() != nil {
		if !l.dev.faultLock.TryLock() {
			return false
		}
		l.alone = true
	}
	l.access.Add(1)
	return true
}

// leave comes before the release of a lane's lock.
func (l *laneLock) leave() {
	l.access.Add(1)
	if l.alone {
		l.alone = false
		l.dev.faultLock.Unlock()
	}
}

// awaitAccesses waits until the accesses to memory that other lanes began by bindings of windows that have ended are
// over: the completions that follow promise that. This lane makes none meanwhile, so two lanes can wait for each other.
func (l *Lane) awaitAccesses() {
	ended := l.dev.memory.Ended()
	if ended == l.ended {
		return
	}
	l.ended = ended
	l.Mu.several.access.Add(1)
	defer l.Mu.several.access.Add(1)
	for _, other := range l.dev.Lanes {
		a := &other.Mu.several.access
		if other == l || a.Load()%2 == 0 {
			continue
		}
		for i, began := 0, a.Load(); a.Load() == began; i++ {
			if runtime.Gosched(); i > 100 { // its thread may have lost the processor
				time.Sleep(10 * time.Microsecond)
			}
		}
	}
}

// brokenQPs are queue pairs of a lane that other lanes found broken: their completion queue has overflowed.
type brokenQPs struct {
	mu   lockorder.Mutex[lockorder.Leaf]
	list []QueuePair
	some atomic.Bool
}

// breakSoon has the lane's next pass break a queue pair. The lane's lock need not be held.
func (l *Lane) breakSoon(q QueuePair) {
	l.broken.mu.Lock()
	if !slices.Contains(l.broken.list, q) {
		l.broken.list = append(l.broken.list, q)
		l.broken.some.Store(true)
	}
	l.broken.mu.Unlock()
	l.wakeLoop()
}

// breakNow breaks the queue pairs that other lanes found broken, unless they have ended.
func (l *Lane) breakNow() {
	l.broken.mu.Lock()
	list := l.broken.list
	l.broken.list = nil
	l.broken.some.Store(false)
	l.broken.mu.Unlock()
	for _, q := range list {
		if l.dev.QPs[q.Num()] == q {
			l.Touch(q.Common())
			l.breakFatally(q)
		}
	}
	l.Mu.Counted = true
	l.Deliver()
}
