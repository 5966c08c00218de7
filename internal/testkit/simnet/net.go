// SPDX-License-Identifier: Apache-2.0

package simnet

import (
	"container/heap"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing/synctest"
	"time"

	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/wire/ib"
)

// Net is a network of hosts. Its goroutine has one thing happen at a time, and lets all that
// follows from it come to rest before the next one.
type Net struct {
	// Rand has the random numbers of a scenario, for one goroutine.
	Rand *rand.Rand
	// Default is the state of new paths.
	Default Path
	// Mutate changes a packet that leaves, before its ICRC is computed; nil: none is changed.
	Mutate func(transport []byte)
	// Watch gets each packet that leaves a host, and each packet that a host's device has taken, without ICRC;
	// nil: there is no watcher. It is called with the network's lock held.
	Watch Watcher

	seed  uint64
	start time.Time
	log   *Log

	mu     sync.Mutex
	hosts  []*Host
	groups map[verbs.GID][]*Port
	paths  map[[2]*Host]*path
	events events
	taken  map[instant]struct{} // at which something is to happen
	wake   chan struct{}        // an event has become the first
	done   chan struct{}
	closed bool

	moved atomic.Uint64
}

// Watcher looks at packets. They are its own only until it returns.
type Watcher interface {
	Leaves(now time.Duration, from *Host, p *ib.Packet)
	Taken(now time.Duration, by *Host, p *ib.Packet)
}

// instant is nanoseconds since the network was made.
type instant int64

// New makes a network whose chances follow from seed. The caller has it closed, after everything on it.
func New(seed uint64, log *Log) *Net {
	n := &Net{
		Rand:   rand.New(rand.NewPCG(seed, 0x73696d6e6574)),
		seed:   seed,
		start:  time.Now(),
		log:    log,
		groups: make(map[verbs.GID][]*Port),
		paths:  make(map[[2]*Host]*path),
		taken:  make(map[instant]struct{}),
		wake:   make(chan struct{}, 1),
		done:   make(chan struct{}),
	}
	go n.run()
	return n
}

// Moved returns a number that changes while time passes. It may be called outside of the bubble.
func (n *Net) Moved() uint64 { return n.moved.Load() }

// Elapsed returns how much time has passed on the network.
func (n *Net) Elapsed() time.Duration { return time.Since(n.start) }

// Note writes a line into the log.
func (n *Net) Note(what string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.log != nil {
		n.log.Text = fmt.Appendf(n.log.Text, "%d %s\n", n.now(), what)
	}
}

// Close ends the network's goroutine.
func (n *Net) Close() {
	n.mu.Lock()
	n.closed = true
	n.mu.Unlock()
	poke(n.wake)
	<-n.done
}

// After has f called when d has passed, with everything at rest. It is called by the network's
// goroutine, and must not wait.
func (n *Net) After(d time.Duration, f func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.at(n.now()+instant(d), func() {
		n.mu.Unlock()
		f()
		n.mu.Lock()
	})
}

func (n *Net) now() instant { return instant(time.Since(n.start)) }

// take returns the first instant from t on that nothing else has. Two goroutines that go on at the
// same time do so in any order, so no two of them do.
func (n *Net) take(t instant) instant {
	n.moved.Add(1)
	for t = max(t, n.now()+1); ; t++ {
		if _, taken := n.taken[t]; !taken {
			n.taken[t] = struct{}{}
			return t
		}
	}
}

// event is something that happens, with the network's lock held.
type event struct {
	at instant
	do func()
}

type events []event

func (e events) Len() int           { return len(e) }
func (e events) Less(i, j int) bool { return e[i].at < e[j].at }
func (e events) Swap(i, j int)      { e[i], e[j] = e[j], e[i] }
func (e *events) Push(x any)        { *e = append(*e, x.(event)) }
func (e *events) Pop() any {
	last := (*e)[len(*e)-1]
	(*e)[len(*e)-1] = event{}
	*e = (*e)[:len(*e)-1]
	return last
}

// at has f called at t, or right after it; the lock is held.
func (n *Net) at(t instant, f func()) {
	t = n.take(t)
	heap.Push(&n.events, event{t, f})
	if n.events[0].at == t {
		poke(n.wake)
	}
}

// run lets events happen.
func (n *Net) run() {
	defer close(n.done)
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		synctest.Wait()
		var next <-chan time.Time
		n.mu.Lock()
		if n.closed {
			n.mu.Unlock()
			return
		}
		if len(n.events) > 0 {
			left := n.events[0].at - n.now()
			if left <= 0 {
				e := heap.Pop(&n.events).(event)
				delete(n.taken, e.at)
				e.do()
				n.mu.Unlock()
				continue
			}
			timer.Reset(time.Duration(left))
			next = timer.C
		}
		n.mu.Unlock()
		select {
		case <-next:
		case <-n.wake:
		}
	}
}

// hostAt returns the host with an address; nil: none.
func (n *Net) hostAt(a netip.Addr) *Host {
	for _, h := range n.hosts {
		if h.addr == a {
			return h
		}
	}
	return nil
}

func poke(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
