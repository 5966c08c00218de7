// SPDX-License-Identifier: Apache-2.0

//go:build cabi && linux

package main

import (
	"sync"
	"sync/atomic"
)

// table gives out the handles by which C knows Go's objects. Looking one up takes no lock.
// Handle 0 stands for no object.
type table[T any] struct {
	mu    sync.Mutex
	slots atomic.Pointer[[]atomic.Pointer[T]]
	free  []uint64
	next  uint64
}

func (t *table[T]) put(v *T) uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	if n := len(t.free); n > 0 {
		h := t.free[n-1]
		t.free = t.free[:n-1]
		(*t.slots.Load())[h].Store(v)
		return h
	}
	t.next++
	slots := t.slots.Load()
	if slots == nil || int(t.next) >= len(*slots) {
		grown := make([]atomic.Pointer[T], max(64, 2*t.next))
		if slots != nil {
			for i := range *slots {
				grown[i].Store((*slots)[i].Load())
			}
		}
		t.slots.Store(&grown)
		slots = &grown
	}
	(*slots)[t.next].Store(v)
	return t.next
}

// get returns nil for a handle that stands for nothing.
func (t *table[T]) get(h uint64) *T {
	slots := t.slots.Load()
	if slots == nil || h >= uint64(len(*slots)) {
		return nil
	}
	return (*slots)[h].Load()
}

// find returns an object that matches; nil: there is none.
func (t *table[T]) find(match func(*T) bool) *T {
	t.mu.Lock()
	defer t.mu.Unlock()
	for h := uint64(1); h <= t.next; h++ {
		if v := (*t.slots.Load())[h].Load(); v != nil && match(v) {
			return v
		}
	}
	return nil
}

// each calls f with every object.
func (t *table[T]) each(f func(*T)) {
	if slots := t.slots.Load(); slots != nil {
		for i := range *slots {
			if v := (*slots)[i].Load(); v != nil {
				f(v)
			}
		}
	}
}

// retire drops an object whose handle C still has: it will stand for nothing else.
func (t *table[T]) retire(h uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	(*t.slots.Load())[h].Store(nil)
}

func (t *table[T]) drop(h uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	(*t.slots.Load())[h].Store(nil)
	t.free = append(t.free, h)
}
