// SPDX-License-Identifier: Apache-2.0

package nvme

import (
	"context"
	"sync"
)

// arenaPage is the unit of an arena in bytes.
const arenaPage = 4096

// span is a part of an arena, in pages. The zero span is none.
type span struct{ at, n int }

// arena hands out parts of a region. Callers that wait are served in the order in which they came, so that long parts
// have their turn.
type arena struct {
	mu      sync.Mutex
	used    []bool // by page
	low     int    // no page below is unused
	waiting []*arenaWait
}

type arenaWait struct {
	n   int
	got chan int // where the pages are
}

func newArena(size int) *arena { return &arena{used: make([]bool, size/arenaPage)} }

func pagesOf(size int) int { return (size + arenaPage - 1) / arenaPage }

// tryGet is get for callers that do not wait.
func (a *arena) tryGet(size int) (span, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.take(pagesOf(size))
}

// take takes n pages, unless others wait for some or there are none.
func (a *arena) take(n int) (s span, ok bool) {
	if len(a.waiting) > 0 {
		return span{}, false
	}
	at, ok := a.find(n)
	if !ok {
		return span{}, false
	}
	return span{at, n}, true
}

// get waits for a part of size bytes, which must be more than 0 and fit the arena.
func (a *arena) get(ctx context.Context, size int) (span, error) {
	n := pagesOf(size)
	a.mu.Lock()
	if s, ok := a.take(n); ok {
		a.mu.Unlock()
		return s, nil
	}
	w := &arenaWait{n: n, got: make(chan int, 1)}
	a.waiting = append(a.waiting, w)
	a.mu.Unlock()
	select {
	case at := <-w.got:
		return span{at, n}, nil
	case <-ctx.Done():
		return span{}, ctx.Err() // the arena ends with the queue: the other waiters end, too
	}
}

// find takes n pages in a row.
func (a *arena) find(n int) (at int, ok bool) {
	run := 0
	for i := a.low; i < len(a.used); i++ {
		if run++; a.used[i] {
			run = 0
		} else if run == n {
			at = i + 1 - n
			for j := at; j <= i; j++ {
				a.used[j] = true
			}
			if at == a.low {
				a.low = i + 1
			}
			return at, true
		}
	}
	return 0, false
}

// put returns a part.
func (a *arena) put(s span) {
	if s.n == 0 {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	clear(a.used[s.at : s.at+s.n])
	a.low = min(a.low, s.at)
	for len(a.waiting) > 0 {
		at, ok := a.find(a.waiting[0].n)
		if !ok {
			return
		}
		a.waiting[0].got <- at
		a.waiting = a.waiting[1:]
	}
}
