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

// held has the places of the locks that each goroutine holds, by the goroutine's number.
var held struct {
	sync.Mutex
	by map[string][]int
}

// Mutex is a mutex at a place of the order, which it checks.
type Mutex[P Place] struct{ mutex sync.Mutex }

// Lock takes the lock. It panics if the goroutine holds one that does not come earlier.
func (m *Mutex[P]) Lock() {
	var p P
	g := goroutine()
	held.Lock()
	for _, other := range held.by[g] {
		if other >= p.place() {
			held.Unlock()
			panic(fmt.Sprintf("lockorder: lock %d is taken with lock %d held", p.place(), other))
		}
	}
	held.Unlock()
	m.mutex.Lock()
	hold(g, p.place())
}

// TryLock takes the lock if it is free. That cannot block, so any locks may be held.
func (m *Mutex[P]) TryLock() bool {
	var p P
	if !m.mutex.TryLock() {
		return false
	}
	hold(goroutine(), p.place())
	return true
}

// Unlock releases the lock, which the goroutine must hold.
func (m *Mutex[P]) Unlock() {
	var p P
	g := goroutine()
	held.Lock()
	i := slices.Index(held.by[g], p.place())
	if i < 0 {
		held.Unlock()
		panic(fmt.Sprintf("lockorder: lock %d is released by a goroutine that does not hold it", p.place()))
	}
	if held.by[g] = slices.Delete(held.by[g], i, i+1); len(held.by[g]) == 0 {
		delete(held.by, g)
	}
	held.Unlock()
	m.mutex.Unlock()
}

func hold(g string, place int) {
	held.Lock()
	defer held.Unlock()
	if held.by == nil {
		held.by = make(map[string][]int)
	}
	held.by[g] = append(held.by[g], place)
}

// goroutine returns the number of the calling goroutine, which only its stack trace tells.
func goroutine() string {
	var b [32]byte
	_, rest, _ := bytes.Cut(b[:runtime.Stack(b[:], false)], []byte(" "))
	number, _, _ := bytes.Cut(rest, []byte(" "))
	return string(number)
}
