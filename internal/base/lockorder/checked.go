// SPDX-License-Identifier: Apache-2.0

//go:build lockorder

package lockorder

import (
	"bytes"
	"fmt"
	"runtime"
	"slices"
	"sync"
)

// held has the locks that each goroutine holds, by the goroutine's number.
var held struct {
	sync.Mutex
	by map[string][]lock
}

// lock is a lock that somebody holds.
type lock struct {
	mutex  any
	place  int
	group  any // nil: it is in none
	number int // in the group
}

// before reports whether a goroutine that holds l may take other.
func (l lock) before(other lock) bool {
	return l.place < other.place ||
		l.place == other.place && l.group != nil && l.group == other.group && l.number < other.number
}

// Mutex is a mutex at a place of the order, which it checks.
type Mutex[P Place] struct {
	mutex  sync.Mutex
	group  any
	number int
}

// InGroup makes the mutex one of a group, whose mutexes are taken in the order of their numbers.
func (m *Mutex[P]) InGroup(group any, number int) { m.group, m.number = group, number }

// lock returns m as a goroutine holds it.
func (m *Mutex[P]) lock() lock {
	var p P
	return lock{m, p.place(), m.group, m.number}
}

// Lock takes the lock. It panics if the goroutine holds a lock that does not come earlier.
func (m *Mutex[P]) Lock() {
	g, l := goroutine(), m.lock()
	held.Lock()
	for _, other := range held.by[g] {
		if !other.before(l) {
			held.Unlock()
			panic(fmt.Sprintf("lockorder: lock %d is taken with lock %d held", l.place, other.place))
		}
	}
	held.Unlock()
	m.mutex.Lock()
	hold(g, l)
}

// TryLock takes the lock if it is free. That cannot block, so any locks may be held.
func (m *Mutex[P]) TryLock() bool {
	if !m.mutex.TryLock() {
		return false
	}
	hold(goroutine(), m.lock())
	return true
}

// Unlock releases the lock, which the goroutine must hold.
func (m *Mutex[P]) Unlock() {
	g, l := goroutine(), m.lock()
	held.Lock()
	i := slices.Index(held.by[g], l)
	if i < 0 {
		held.Unlock()
		panic(fmt.Sprintf("lockorder: lock %d is released by a goroutine that does not hold it", l.place))
	}
	if held.by[g] = slices.Delete(held.by[g], i, i+1); len(held.by[g]) == 0 {
		delete(held.by, g)
	}
	held.Unlock()
	m.mutex.Unlock()
}

func hold(g string, l lock) {
	held.Lock()
	defer held.Unlock()
	if held.by == nil {
		held.by = make(map[string][]lock)
	}
	held.by[g] = append(held.by[g], l)
}

// goroutine returns the number of the calling goroutine, which only its stack trace tells.
func goroutine() string {
	var b [32]byte
	_, rest, _ := bytes.Cut(b[:runtime.Stack(b[:], false)], []byte(" "))
	number, _, _ := bytes.Cut(rest, []byte(" "))
	return string(number)
}
