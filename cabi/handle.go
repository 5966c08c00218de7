// SPDX-License-Identifier: Apache-2.0

//go:build cabi && linux

package main

// #include <stdint.h>
import "C"

import (
	"sync"
	"sync/atomic"

	"github.com/ramjet-rdma/ramjet/internal/system/sigstack"
)

// handleOf returns the handle of a struct that repeats a part of it where programs see it. If the
// copy differs, it is the handle of nothing.
func handleOf(h C.uint64_t, seen C.uint32_t) uint64 {
	if C.uint32_t(h) != seen {
		return 0
	}
	return uint64(h)
}

// table issues the handles by which C knows Go's objects. Looking one up takes no lock. Handle 0 stands for no object.
// The handle of a dropped object is not reused, because a thread may still use an object that another destroys. Nor is
// a handle of one table valid in another: the memory of an object may have become that of another kind of object.
type table[T any] struct {
	kind  uint64 // the highest 8 bits of its handles
	mu    sync.Mutex
	slots atomic.Pointer[[]*slot[T]]
	free  []uint64
	next  uint64
}

var tables atomic.Uint64

func newTable[T any]() *table[T] { return &table[T]{kind: tables.Add(1)} }

// slot holds the object with the low 32 bits of a handle.
type slot[T any] struct {
	v atomic.Pointer[T]
	n atomic.Uint32 // number of objects it had before: the 24 bits above them
}

// handle returns the handle of the object in a slot.
func (t *table[T]) handle(i uint64, s *slot[T]) uint64 {
	return t.kind<<56 | uint64(s.n.Load()&(1<<24-1))<<32 | i
}

func (t *table[T]) put(v *T) uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	if n := len(t.free); n > 0 {
		i := t.free[n-1]
		t.free = t.free[:n-1]
		s := (*t.slots.Load())[i]
		s.v.Store(v)
		return t.handle(i, s)
	}
	t.next++
	slots := t.slots.Load()
	if slots == nil || int(t.next) >= len(*slots) {
		grown := make([]*slot[T], max(64, 2*t.next))
		if slots != nil {
			copy(grown, *slots)
		}
		for i := range grown {
			if grown[i] == nil {
				grown[i] = &slot[T]{}
			}
		}
		t.slots.Store(&grown)
		slots = &grown
	}
	s := (*slots)[t.next]
	s.v.Store(v)
	return t.handle(t.next, s)
}

// get returns nil for a handle that is not valid. Calls of C begin with it: it makes room for handlers of signals.
func (t *table[T]) get(h uint64) *T {
	sigstack.Reserve()
	slots := t.slots.Load()
	i := h & (1<<32 - 1)
	if slots == nil || i >= uint64(len(*slots)) {
		return nil
	}
	s := (*slots)[i]
	v := s.v.Load()
	if t.handle(i, s) != h { // the count changes before another object comes
		return nil
	}
	return v
}

// find returns an object that matches, or nil.
func (t *table[T]) find(match func(*T) bool) (found *T) {
	t.each(func(v *T) {
		if found == nil && match(v) {
			found = v
		}
	})
	return found
}

// each calls f with every object.
func (t *table[T]) each(f func(*T)) {
	if slots := t.slots.Load(); slots != nil {
		for _, s := range *slots {
			if v := s.v.Load(); v != nil {
				f(v)
			}
		}
	}
}

// drop invalidates a handle. A second call for it does nothing.
func (t *table[T]) drop(h uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	i := h & (1<<32 - 1)
	s := (*t.slots.Load())[i]
	if t.handle(i, s) != h || s.v.Load() == nil {
		return
	}
	s.n.Add(1)
	s.v.Store(nil)
	t.free = append(t.free, i)
}
