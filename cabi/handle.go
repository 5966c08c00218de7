// SPDX-License-Identifier: Apache-2.0

//go:build cabi && linux

package main

import (
	"sync"
	"sync/atomic"
)

// table gives out the handles by which C knows Go's objects. Looking one up takes no lock.
// Handle 0 stands for no object, and that of an object that was dropped for no other one: a
// thread may still use what another destroys.
type table[T any] struct {
	mu    sync.Mutex
	slots atomic.Pointer[[]*slot[T]]
	free  []uint64
	next  uint64
}

// slot is where an object is found by the low 32 bits of its handle.
type slot[T any] struct {
	v atomic.Pointer[T]
	n atomic.Uint32 // objects that it had before: the high 32 bits
}

func (t *table[T]) put(v *T) uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	if n := len(t.free); n > 0 {
		i := t.free[n-1]
		t.free = t.free[:n-1]
		s := (*t.slots.Load())[i]
		s.v.Store(v)
		return uint64(s.n.Load())<<32 | i
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
	(*slots)[t.next].v.Store(v)
	return t.next
}

// get returns nil for a handle that stands for nothing.
func (t *table[T]) get(h uint64) *T {
	slots := t.slots.Load()
	i := h & (1<<32 - 1)
	if slots == nil || i >= uint64(len(*slots)) {
		return nil
	}
	s := (*slots)[i]
	v := s.v.Load()
	if uint64(s.n.Load()) != h>>32 { // counted before another comes
		return nil
	}
	return v
}

// find returns an object that matches; nil: there is none.
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

// drop forgets an object. A second call for the handle does nothing.
func (t *table[T]) drop(h uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	i := h & (1<<32 - 1)
	s := (*t.slots.Load())[i]
	if uint64(s.n.Load()) != h>>32 || s.v.Load() == nil {
		return
	}
	s.n.Add(1)
	s.v.Store(nil)
	t.free = append(t.free, i)
}
